//! Both sides of MCP in one process: clients and servers of rmcp over duplex streams, with the real engine between.

mod children;
mod fake;
mod hostile;
mod http;
mod kept;
mod live;
mod remote;
mod server;
mod upstream;
