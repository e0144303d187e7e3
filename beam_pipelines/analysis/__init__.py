"""What is known about the data: statistics, schema, anomalies, report."""
