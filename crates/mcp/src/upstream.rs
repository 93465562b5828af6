//! MCP servers as providers.
