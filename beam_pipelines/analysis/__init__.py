"""Statistics, schema, anomalies and the report."""
