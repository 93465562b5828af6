//! An MCP server over providers: search, and code that calls tools.
