//! A client that allocates nothing while it calls: the same request again and again into the same buffer.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use anyhow::{Context as _, Result, bail};

/// Room for one response.
const RESPONSE_MAX: usize = 64 << 10;

/// One connection, and the call that is made on it.
pub struct Client {
    stream: TcpStream,
    path: String,
    headers: String,
    response: Box<[u8; RESPONSE_MAX]>,
    call: Vec<u8>,
}

impl Client {
    /// Connects and, on the legacy wire, opens a session.
    pub fn open(address: SocketAddr, path: &str, modern: bool) -> Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        let response = Box::new([0; RESPONSE_MAX]);
        let mut client = Self { stream, path: path.to_owned(), headers: String::new(), response, call: Vec::new() };
        let arguments = format!(r#""name":"echo","arguments":{{"message":"{}"}}"#, "x".repeat(64));
        let params = if modern {
            client.headers =
                "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: echo\r\n".to_owned();
            format!(
                r#"{arguments},"_meta":{{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{{"name":"allocs","version":"1"}},"io.modelcontextprotocol/clientCapabilities":{{}}}}"#
            )
        } else {
            client.begin()?;
            arguments
        };
        let call = format!(r#"{{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{{{params}}}}}"#);
        client.call = client.request(&call);
        Ok(client)
    }

    fn begin(&mut self) -> Result<()> {
        let hello = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"allocs","version":"1"}}}"#;
        let head = self.say(hello)?;
        let head = std::str::from_utf8(self.response.get(..head).unwrap_or_default())?;
        let session = head.lines().find_map(|line| line.strip_prefix("mcp-session-id: ")).context("no session")?;
        self.headers = format!("Mcp-Session-Id: {session}\r\nMCP-Protocol-Version: 2025-11-25\r\n");
        self.say(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#)?;
        Ok(())
    }

    fn request(&self, body: &str) -> Vec<u8> {
        let Self { path, headers, .. } = self;
        format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n{headers}Content-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .into_bytes()
    }

    fn say(&mut self, body: &str) -> Result<usize> {
        let request = self.request(body);
        self.stream.write_all(&request)?;
        Ok(self.read()?.0)
    }

    /// Makes the call once and checks that it was answered.
    pub fn call(&mut self) -> Result<()> {
        self.stream.write_all(&self.call)?;
        let (head, end) = self.read()?;
        let body = self.response.get(head..end).unwrap_or_default();
        if !body.windows(9).any(|piece| piece == b"\"content\"") {
            bail!("no result: {}", String::from_utf8_lossy(self.response.get(..end).unwrap_or_default()));
        }
        Ok(())
    }

    /// Reads one response with a length; where its head and its body end.
    fn read(&mut self) -> Result<(usize, usize)> {
        let mut filled = 0;
        loop {
            let room = self.response.get_mut(filled..).filter(|room| !room.is_empty()).context("response too long")?;
            match self.stream.read(room)? {
                0 => bail!("the gateway closed the connection"),
                read => filled += read,
            }
            let got = self.response.get(..filled).unwrap_or_default();
            let Some(head) = got.windows(4).position(|piece| piece == b"\r\n\r\n").map(|at| at + 4) else { continue };
            let end = head + length(got.get(..head).unwrap_or_default());
            if end <= filled {
                return Ok((head, end));
            }
        }
    }
}

fn length(head: &[u8]) -> usize {
    const NAME: &[u8] = b"content-length: ";
    let at = head.windows(NAME.len()).position(|piece| piece.eq_ignore_ascii_case(NAME));
    let digits = head.get(at.map_or(head.len(), |at| at + NAME.len())..).unwrap_or_default();
    digits.iter().take_while(|byte| byte.is_ascii_digit()).fold(0, |sum, digit| sum * 10 + usize::from(digit - b'0'))
}
