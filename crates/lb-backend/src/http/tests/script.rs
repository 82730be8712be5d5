//! A server that does exactly what the test says.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use lb_exchange::Tasks;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{Mutex, mpsc};

/// How long a test waits for something that must come.
const PATIENCE: Duration = Duration::from_secs(20);

pub struct Script {
    address: SocketAddr,
    heard: mpsc::Receiver<Heard>,
    /// Connections that ended, in order.
    pub ended: Vec<usize>,
    waiting: std::collections::VecDeque<Asked>,
}

enum Heard {
    Asked(Asked),
    Ended(usize),
}

/// One request, and the way to answer it.
pub struct Asked {
    pub method: String,
    pub path: String,
    pub headers: HashMap<String, String>,
    pub body: Value,
    /// Which TCP connection it came on, counted from one.
    pub connection: usize,
    out: Arc<Mutex<OwnedWriteHalf>>,
}

impl Script {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (tell, heard) = mpsc::channel(1024);
        let tasks = Tasks::default();
        let own = tasks.clone();
        tasks.spawn(async move {
            let mut connection = 0;
            while let Ok((stream, _)) = listener.accept().await {
                connection += 1;
                let (input, output) = stream.into_split();
                own.spawn(serve(connection, input, Arc::new(Mutex::new(output)), tell.clone()));
            }
        });
        Self { address, heard, ended: Vec::new(), waiting: std::collections::VecDeque::new() }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// The next request.
    pub async fn next(&mut self) -> Asked {
        if let Some(asked) = self.waiting.pop_front() {
            return asked;
        }
        loop {
            match self.hear().await {
                Heard::Asked(asked) => return asked,
                Heard::Ended(connection) => self.ended.push(connection),
            }
        }
    }

    /// Waits until the client has closed this connection.
    pub async fn closed(&mut self, connection: usize) {
        while !self.ended.contains(&connection) {
            match self.hear().await {
                Heard::Asked(asked) => self.waiting.push_back(asked),
                Heard::Ended(connection) => self.ended.push(connection),
            }
        }
    }

    /// Takes in what was heard so far.
    pub fn look(&mut self) {
        while let Ok(heard) = self.heard.try_recv() {
            match heard {
                Heard::Asked(asked) => self.waiting.push_back(asked),
                Heard::Ended(connection) => self.ended.push(connection),
            }
        }
    }

    async fn hear(&mut self) -> Heard {
        tokio::time::timeout(PATIENCE, self.heard.recv()).await.expect("the client does something").unwrap()
    }
}

async fn serve(connection: usize, input: OwnedReadHalf, out: Arc<Mutex<OwnedWriteHalf>>, tell: mpsc::Sender<Heard>) {
    let mut input = BufReader::new(input);
    while let Some(asked) = read(connection, &mut input, &out).await {
        if tell.send(Heard::Asked(asked)).await.is_err() {
            return;
        }
    }
    drop(tell.send(Heard::Ended(connection)).await);
}

async fn read(
    connection: usize,
    input: &mut BufReader<OwnedReadHalf>,
    out: &Arc<Mutex<OwnedWriteHalf>>,
) -> Option<Asked> {
    let mut line = String::new();
    input.read_line(&mut line).await.ok().filter(|read| *read != 0)?;
    let mut words = line.split_whitespace();
    let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut headers = HashMap::new();
    loop {
        let mut line = String::new();
        input.read_line(&mut line).await.ok().filter(|read| *read != 0)?;
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        let twice = headers.insert(name.to_ascii_lowercase(), value.to_owned());
        assert!(twice.is_none(), "header {name} is sent once");
    }
    let length = headers.get("content-length").map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    input.read_exact(&mut body).await.ok()?;
    let body = if body.is_empty() { Value::Null } else { serde_json::from_slice(&body).unwrap() };
    Some(Asked { method, path, headers, body, connection, out: out.clone() })
}

impl Asked {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    /// A result for this request.
    pub fn result(&self, result: &Value) -> String {
        json!({"jsonrpc": "2.0", "id": self.body["id"], "result": result}).to_string()
    }

    /// Writes bytes as they are; a client that is gone is no failure.
    pub async fn write(&self, bytes: impl AsRef<[u8]>) {
        drop(self.out.lock().await.write_all(bytes.as_ref()).await);
    }

    pub async fn respond(&self, status: &str, headers: &[(&str, &str)], body: &str) {
        let mut text = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n", body.len());
        for (name, value) in headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        self.write(format!("{text}\r\n{body}")).await;
    }

    pub async fn json(&self, body: &str) {
        self.respond("200 OK", &[("content-type", "application/json")], body).await;
    }

    pub async fn accept(&self) {
        self.respond("202 Accepted", &[], "").await;
    }

    /// Starts a stream of events.
    pub async fn stream(&self) {
        self.write("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n").await;
    }

    /// Writes a piece of a stream.
    pub async fn piece(&self, text: &str) {
        self.write(format!("{:x}\r\n{text}\r\n", text.len())).await;
    }

    /// Writes one message on a stream.
    pub async fn event(&self, id: Option<&str>, message: &Value) {
        let id = id.map(|id| format!("id: {id}\n")).unwrap_or_default();
        self.piece(&format!("{id}data: {message}\n\n")).await;
    }

    /// Ends a stream.
    pub async fn finish(&self) {
        self.write("0\r\n\r\n").await;
    }

    /// Closes the connection, whatever was being said.
    pub async fn hang_up(&self) {
        drop(self.out.lock().await.shutdown().await);
    }
}
