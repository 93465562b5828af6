//! Both sides of MCP in one process: clients and servers of rmcp over duplex streams, with the real engine between.

mod approvals;
mod children;
mod compressed;
mod connections;
mod crowds;
mod eras;
mod fake;
mod hostile;
mod http;
mod kept;
mod lenient;
mod live;
mod logins;
mod mutated;
mod oauth;
mod reading;
mod remote;
mod requests;
mod resources;
mod rounds;
mod server;
mod site;
mod sse;
mod state;
mod tls;
mod upstream;
