//! A browser that keeps cookies, follows redirects, and fills in the first form of each page.

use std::collections::BTreeMap;
use std::io::{Error, Result};
use std::net::SocketAddr;

use url::Url;

use crate::raw::http::{RawHttp, Response};

/// How many pages and redirects lead to a login, at most.
const HOPS_MAX: usize = 30;

/// What is said where somebody asks for consent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Yes.
    Approve,
    /// No.
    Deny,
}

/// Where it has stopped.
#[derive(Clone, Debug)]
pub struct Stopped {
    /// The address: the one it was to stop at, with its query, or that of a page that leads nowhere.
    pub url: Url,
    /// The page that leads nowhere.
    pub page: Option<(u16, String)>,
    /// Every address that it was at, with the status.
    pub trace: Vec<(Url, u16)>,
}

/// One browser; what it has logged in to stays so.
#[derive(Debug, Default)]
pub struct Browser {
    cookies: BTreeMap<(String, String), String>,
    address: Option<String>,
    ways: BTreeMap<String, SocketAddr>,
}

/// The first form of a page.
#[derive(Debug, Default)]
struct Form {
    action: String,
    post: bool,
    fields: Vec<(String, String)>,
}

impl Browser {
    /// A browser whose requests come by a proxy that names this address.
    #[must_use]
    pub fn at(address: &str) -> Self {
        Self { address: Some(address.to_owned()), ..Self::default() }
    }

    /// A browser that reaches `localhost:443` and the like at this address, without TLS: as what a proxy passes on.
    #[must_use]
    pub fn by_way_of(mut self, authority: &str, address: SocketAddr) -> Self {
        self.ways.insert(authority.to_owned(), address);
        self
    }

    /// Its cookies, by name.
    pub fn cookies(&self) -> impl Iterator<Item = (&str, &str)> {
        self.cookies.iter().map(|((_, name), value)| (name.as_str(), value.as_str()))
    }

    /// Goes from an address to another one, logging in as `user` on its way.
    ///
    /// # Errors
    /// When a connection breaks, or it never gets there.
    pub async fn login(&mut self, from: &str, stop_at: &str, user: &str, decision: Decision) -> Result<Stopped> {
        let mut url = Url::parse(from).map_err(Error::other)?;
        let mut body = None;
        let mut trace = Vec::new();
        for _ in 0..HOPS_MAX {
            if url.as_str().split(['?', '#']).next() == Some(stop_at) {
                return Ok(Stopped { url, page: None, trace });
            }
            let answer = self.open(&url, body.take()).await?;
            let status = answer.head.status();
            trace.push((url.clone(), status));
            if let Some(to) = answer.head.header("location").filter(|_| (300..400).contains(&status)) {
                url = url.join(to).map_err(Error::other)?;
                continue;
            }
            let Some(form) = form(&answer.text()).filter(|_| status < 400) else {
                return Ok(Stopped { url, page: Some((status, answer.text())), trace });
            };
            let fields = filled(&form, user, decision);
            let mut to = url.join(&form.action).map_err(Error::other)?;
            let encoded = encode(&fields);
            if form.post {
                body = Some(encoded);
            } else {
                to.set_query(Some(&encoded));
            }
            url = to;
        }
        Err(Error::other("too many pages and redirects"))
    }

    /// Opens one address; with a body, as a form that is sent.
    ///
    /// # Errors
    /// When the connection breaks.
    pub async fn open(&mut self, url: &Url, body: Option<String>) -> Result<Response> {
        let authority = format!("{}:{}", url.host_str().unwrap_or_default(), url.port_or_known_default().unwrap_or(80));
        let address = match self.ways.get(&authority) {
            Some(way) => *way,
            None => authority.parse().map_err(Error::other)?,
        };
        let mut headers = vec![("Accept".to_owned(), "text/html".to_owned()), ("Connection".into(), "close".into())];
        let cookies: Vec<String> = self
            .cookies
            .iter()
            .filter(|((place, _), _)| *place == authority)
            .map(|((_, name), value)| format!("{name}={value}"))
            .collect();
        if !cookies.is_empty() {
            headers.push(("Cookie".into(), cookies.join("; ")));
        }
        headers.extend(self.address.iter().map(|address| ("X-Forwarded-For".to_owned(), address.clone())));
        if body.is_some() {
            headers.push(("Content-Type".into(), "application/x-www-form-urlencoded".into()));
            headers.push(("Origin".into(), url.origin().ascii_serialization()));
        }
        let path = match url.query() {
            Some(query) => format!("{}?{query}", url.path()),
            None => url.path().to_owned(),
        };
        let method = if body.is_some() { "POST" } else { "GET" };
        let body = body.unwrap_or_default();
        let answer = RawHttp::connect(address).await?.request(method, &path, &headers, body.as_bytes()).await?;
        self.remember(&authority, &answer);
        Ok(answer)
    }

    /// A cookie that it keeps for an address.
    #[must_use]
    pub fn cookie(&self, url: &str, name: &str) -> Option<String> {
        let url = Url::parse(url).ok()?;
        let authority = format!("{}:{}", url.host_str()?, url.port_or_known_default()?);
        self.cookies.get(&(authority, name.to_owned())).cloned()
    }

    fn remember(&mut self, authority: &str, answer: &Response) {
        let set = answer.head.headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case("set-cookie"));
        for (_, cookie) in set {
            let pair = cookie.split(';').next().unwrap_or_default();
            let Some((name, value)) = pair.split_once('=') else { continue };
            let place = (authority.to_owned(), name.trim().to_owned());
            if value.is_empty() || cookie.contains("Max-Age=0") || cookie.contains("01 Jan 1970") {
                self.cookies.remove(&place);
            } else {
                self.cookies.insert(place, value.to_owned());
            }
        }
    }
}

/// The fields of a form as this person fills them in.
fn filled(form: &Form, user: &str, decision: Decision) -> Vec<(String, String)> {
    let refused = match decision {
        Decision::Approve => "deny",
        Decision::Deny => "approve",
    };
    let fields = form.fields.iter().filter(|(_, value)| value != refused);
    let filled = fields.map(|(name, value)| match name.as_str() {
        "login" | "username" | "email" => (name.clone(), user.to_owned()),
        "password" => (name.clone(), "x".to_owned()),
        _ => (name.clone(), value.clone()),
    });
    filled.collect()
}

fn encode(fields: &[(String, String)]) -> String {
    url::form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish()
}

/// The first form of a page, with its buttons as fields.
fn form(html: &str) -> Option<Form> {
    let (_, rest) = html.split_once("<form")?;
    let (tag, rest) = rest.split_once('>')?;
    let inside = rest.split_once("</form>").map_or(rest, |(inside, _)| inside);
    let mut form = Form {
        action: attribute(tag, "action").unwrap_or_default(),
        post: attribute(tag, "method").is_some_and(|method| method.eq_ignore_ascii_case("post")),
        fields: Vec::new(),
    };
    for piece in inside.split('<').filter(|piece| piece.starts_with("input") || piece.starts_with("button")) {
        let tag = piece.split('>').next().unwrap_or_default();
        if let Some(name) = attribute(tag, "name") {
            form.fields.push((name, attribute(tag, "value").unwrap_or_default()));
        }
    }
    Some(form)
}

fn attribute(tag: &str, name: &str) -> Option<String> {
    let (_, rest) = tag.split_once(&format!(" {name}=\""))?;
    let (value, _) = rest.split_once('"')?;
    let plain = value.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"");
    Some(plain.replace("&#39;", "'").replace("&amp;", "&"))
}
