"""SQL expressions of recipes and schemas, by DuckDB."""
