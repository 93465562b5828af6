//! Connecting to a runner.

use std::io;

use super::{Address, Framing, StreamTransport, Token, Transport, websocket};

impl Address {
    /// Connects to the runner that listens at this address and presents `token`, if given.
    ///
    /// Connections are not encrypted: use a tunnel across untrusted networks.
    pub async fn connect(&self, token: Option<&Token>) -> io::Result<Box<dyn Transport>> {
        let stream = self.socket.connect().await?;
        if let Framing::WebSocket { .. } = self.framing {
            return Ok(Box::new(websocket::connect(stream, &self.to_string(), token).await?));
        }
        let mut transport = StreamTransport::over(stream);
        if let Some(token) = token {
            transport.send(token.to_line())?; // The runner closes the connection if the token is wrong.
        }
        Ok(Box::new(transport))
    }
}
