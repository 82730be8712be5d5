//! What is put under load: a URL or a command, and the call made on it.
use crate::{
    args::LoadArgs,
    rpc::Call,
    session::{Era, HttpSession, HttpTarget, Session, StdioSession},
};
use anyhow::{Context, Result, bail};
use serde::Deserialize;
use serde_json::{Value, json};
use std::time::Duration;

#[derive(Deserialize, Clone)]
pub struct Target {
    pub name: String,
    pub url: Option<String>,
    /// Where sessions are opened, if not at `url`: another node
    #[serde(default)]
    pub opened_at: Option<String>,
    pub command: Option<Vec<String>>,
    pub pid: Option<i32>,
    pub tool: Option<String>,
    /// `"$MESSAGE"` anywhere in it becomes the payload; by default {"message": "$MESSAGE"}
    pub args: Option<Value>,
    #[serde(default = "legacy")]
    pub era: Era,
    #[serde(default)]
    pub headers: Vec<String>,
    /// Calls of tools are answered by a stream, however soon they end
    #[serde(default)]
    pub stream: bool,
    /// Requests sent on each session before the load, e.g. to attach a backend
    #[serde(default)]
    pub setup: Vec<SetupCall>,
}

#[derive(Deserialize, Clone)]
pub struct SetupCall {
    pub tool: String,
    pub args: Value,
}

fn legacy() -> Era {
    Era::Legacy
}

impl Target {
    pub fn call(&self, load: &LoadArgs, tool: &str) -> Result<Call> {
        let modern = self.era == Era::Modern;
        Ok(match load.method.as_str() {
            "tools/list" => Call::new("tools/list", json!({}), modern),
            "ping" => Call::new("ping", json!({}), modern),
            "tools/call" => {
                let mut args = self.args.clone().unwrap_or_else(|| json!({"message": "$MESSAGE"}));
                fill(&mut args, &"x".repeat(load.payload));
                Call::new(
                    "tools/call",
                    json!({"name": self.tool.as_deref().unwrap_or(tool), "arguments": args}),
                    modern,
                )
            }
            m => bail!("unknown --method {m}"),
        })
    }

    /// Whether the arguments carry the payload, so that the reply should too.
    pub fn echoes(&self) -> bool {
        self.args.as_ref().is_none_or(|a| a.to_string().contains("$MESSAGE"))
    }

    pub fn http(&self, version: &str, deadline: Duration) -> Result<Option<HttpTarget>> {
        let Some(url) = self.url.as_deref() else { return Ok(None) };
        let target = HttpTarget::parse(url, self.era, version, &self.headers, deadline)?;
        Ok(Some(HttpTarget { stream: self.stream, ..target }))
    }

    pub async fn sessions(&self, n: usize, version: &str, deadline: Duration) -> Result<Vec<Session>> {
        let mut out = Vec::with_capacity(n);
        if let Some(t) = self.http(version, deadline)? {
            let elsewhere = self.opened_at.as_deref().map(|u| HttpTarget { authority: authority(u), ..t.clone() });
            for _ in 0..n {
                let mut session = HttpSession::open(elsewhere.clone().unwrap_or_else(|| t.clone())).await?;
                if elsewhere.is_some() {
                    session.go_to(&t.authority);
                }
                out.push(Session::Http(Box::new(session)));
            }
        } else {
            let cmd = self.command.as_ref().context("target has neither url nor command")?;
            let s = StdioSession::open(cmd, version, deadline, true).await?;
            out.extend((0..n).map(|_| Session::Stdio(s.clone())));
        }
        for s in &mut out {
            for c in &self.setup {
                let call =
                    Call::new("tools/call", json!({"name": c.tool, "arguments": c.args}), self.era == Era::Modern);
                s.request(&call).await.with_context(|| format!("setup call {}", c.tool))?;
            }
            if matches!(s, Session::Stdio(_)) {
                break;
            }
        }
        Ok(out)
    }
}

/// The host and port of a URL.
pub fn authority(url: &str) -> String {
    let rest = url.strip_prefix("http://").unwrap_or(url);
    rest.split('/').next().unwrap_or(rest).to_owned()
}

fn fill(v: &mut Value, payload: &str) {
    match v {
        Value::String(s) if s == "$MESSAGE" => *s = payload.into(),
        Value::Array(a) => a.iter_mut().for_each(|x| fill(x, payload)),
        Value::Object(o) => o.values_mut().for_each(|x| fill(x, payload)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payload_is_filled_in() {
        let mut v = json!({"a": ["$MESSAGE", 1], "b": {"c": "$MESSAGE"}});
        fill(&mut v, "zz");
        assert_eq!(v, json!({"a": ["zz", 1], "b": {"c": "zz"}}));
    }
}
