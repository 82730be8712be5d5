//! How a client is asked for a login that its server wants: in the best way that it can show.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use lb_exchange::{
    Ask, Call, Caller, Capabilities, Driver, End, ErrorBody, Exchange, Login, LoginNeeded, Outcome, Resume, ServerAuth,
    Step,
};
use lb_wire::compose::Object;
use lb_wire::revision::{Era, Revision, method};
use lb_wire::{Message, Raw, Text, compose, splice};

/// A client that can open links is told by this error that it must, in the one revision that has it.
const URL_ELICITATION_REQUIRED: i64 = -32042;
/// The question by which a modern client is asked, and its answer. No server has one of this name.
const KEY: &str = "landbridge/login";
/// What its answer brings back: the id of the login.
const STATE: &str = "landbridge/login:";
/// How long a client that has opened the link waits for the login: less than the shortest patience of clients.
pub(crate) const WAIT: Duration = Duration::from_secs(25);

/// Whether an elicitation is called by an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Names {
    /// It is.
    Given,
    /// Its revision has none.
    Absent,
}

/// What a client of this revision, that declared this, is told in answer to a request that needs a login.
pub(crate) fn ask(revision: Revision, declared: &Capabilities, asked: &str, needed: &LoginNeeded) -> Option<End> {
    let facts = method::facts(asked.as_bytes());
    let opens_links = declared.opens_links();
    match revision.era() {
        Era::Modern if opens_links && facts.is_some_and(|facts| facts.input_required) => {
            Some(End::from_server(Outcome::Result(input_required(needed)), Era::Modern))
        }
        Era::Legacy if opens_links && revision == Revision::V2025_11_25 => Some(link_required(needed)),
        Era::Modern | Era::Legacy if asked == method::TOOLS_CALL => Some(tool_result(needed)),
        Era::Modern | Era::Legacy => None,
    }
}

fn sentence(needed: &LoginNeeded) -> String {
    format!("Log in at server '{}' to go on", needed.server)
}

/// The params of an elicitation that asks for it.
pub(crate) fn elicitation(needed: &LoginNeeded, names: Names) -> Raw {
    let id = (names == Names::Given).then_some(needed.id.as_str());
    Object::new()
        .text("mode", "url")
        .maybe_text("elicitationId", id)
        .text("url", &needed.url)
        .text("message", &sentence(needed))
        .finish()
}

/// Nothing is held: the client asks again when the person is done.
fn input_required(needed: &LoginNeeded) -> Raw {
    asking(&elicitation(needed, Names::Absent), &state(needed))
}

/// What a client brings back with its answer.
pub(crate) fn state(needed: &LoginNeeded) -> Raw {
    Raw::string(&format!("{STATE}{}", needed.id))
}

fn asking(params: &Raw, state: &Raw) -> Raw {
    let request = Object::new().text("method", "elicitation/create").raw("params", params).finish();
    Object::new()
        .text("resultType", "input_required")
        .raw("inputRequests", &compose::object(&[(KEY, &request)]))
        .raw("requestState", state)
        .finish()
}

/// The result by which a modern client that can open links is asked for a login of ours, in the place of this ask. `None`
/// for every other ask and client.
pub fn login_question(caller: &Caller, ask: &Ask) -> Option<Raw> {
    let (Resume::Replay { state: Some(state) }, Some(params)) = (&ask.resume, &ask.params) else { return None };
    let can = caller.era() == Era::Modern && caller.capabilities.opens_links();
    can.then(|| asking(&splice::without(params, &["elicitationId"]), state))
}

fn link_required(needed: &LoginNeeded) -> End {
    let elicitations = compose::array([elicitation(needed, Names::Given)].iter());
    let data = compose::object(&[("elicitations", &elicitations)]);
    End::ours(Outcome::Error(ErrorBody::new(URL_ELICITATION_REQUIRED, &sentence(needed), Some(&data))))
}

/// A model can make something of a result.
fn tool_result(needed: &LoginNeeded) -> End {
    let text = format!(
        "Server '{}' needs a login. Ask the user to open this link in a browser and to log in there, then call the tool \
         again: {}",
        needed.server, needed.url
    );
    let block = Object::new().text("type", "text").text("text", &text).finish();
    let result = Object::new().raw("content", &compose::array([block].iter())).flag("isError", true).finish();
    End { failed: true, ..End::ours(Outcome::Result(result)) }
}

/// Whether somebody said yes.
pub(crate) fn is_accepted(result: &Raw) -> bool {
    result.member("action").as_ref().and_then(Raw::plain_str) == Some("accept")
}

/// Opens a call of a modern client of a server that may want a login: the client is asked in its own way.
pub(crate) fn modern(
    auth: &ServerAuth,
    login: impl FnOnce() -> Option<Arc<dyn Login>>,
    call: Call,
    open: impl FnOnce(Call) -> Exchange + Send + 'static,
) -> Exchange {
    if *auth == ServerAuth::None {
        return open(call);
    }
    let (caller, asked) = (call.caller.clone(), Text::from(call.message.method()));
    let (call, answered) = taken(call);
    let inner = match answered.as_ref().and_then(LoginAnswer::waits_for) {
        Some(id) => waited(login(), id.to_owned(), call, open),
        None => open(call),
    };
    let declined = answered.is_some_and(|answered| !answered.accepted);
    Asking { inner, caller, asked, declined }.exchange()
}

/// The same for a client of a session, whose retries say nothing of the question before.
pub(crate) fn legacy(auth: &ServerAuth, call: Call, open: impl FnOnce(Call) -> Exchange) -> Exchange {
    if *auth == ServerAuth::None {
        return open(call);
    }
    let (caller, asked) = (call.caller.clone(), Text::from(call.message.method()));
    Asking { inner: open(call), caller, asked, declined: false }.exchange()
}

/// What a modern client says that was asked for a login before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoginAnswer {
    /// Whether the link was opened.
    pub accepted: bool,
    /// The id of the login, as it was told.
    login: Option<String>,
}

impl LoginAnswer {
    /// What comes with a call, if it does.
    pub fn of(call: &Call) -> Option<Self> {
        let response = call.message.member("inputResponses")?.member(KEY);
        let response = response.filter(|_| call.caller.era() == Era::Modern)?;
        let state = call.message.member("requestState");
        let state = state.as_ref().and_then(Raw::to_text);
        let login = state.as_deref().and_then(|state| state.strip_prefix(STATE)).map(str::to_owned);
        Some(Self { accepted: is_accepted(&response), login })
    }

    /// The login that somebody is at.
    pub fn waits_for(&self) -> Option<&str> {
        self.login.as_deref().filter(|_| self.accepted)
    }
}

/// The call without the answer to our own question, which its server knows nothing of.
fn taken(mut call: Call) -> (Call, Option<LoginAnswer>) {
    let Some(answered) = LoginAnswer::of(&call) else { return (call, None) };
    let plain = call.message.body().map(|params| splice::without(&params, &["inputResponses", "requestState"]));
    if let (Some(id), Some(params)) = (call.message.id(), plain) {
        let request = compose::request(id, call.message.method(), Some(&params));
        if let Ok(message) = Message::scan(request.bytes().clone()) {
            call.message = message;
        }
    }
    (call, Some(answered))
}

/// The person has the link open: most are done in a moment, and the client need not ask again and again.
fn waited(
    login: Option<Arc<dyn Login>>,
    id: String,
    call: Call,
    open: impl FnOnce(Call) -> Exchange + Send + 'static,
) -> Exchange {
    let Some(login) = login else { return open(call) };
    Exchange::deferred(async move {
        // Done or not: the call tells.
        drop(tokio::time::timeout(WAIT, login.ended(&id)).await);
        open(call)
    })
}

/// A call of a client that is asked for a login when it needs one.
struct Asking {
    inner: Exchange,
    caller: Arc<Caller>,
    asked: Text,
    /// It was asked before, and said no.
    declined: bool,
}

impl Asking {
    fn exchange(self) -> Exchange {
        let (remote, server) = (self.inner.remote().clone(), self.inner.server().cloned());
        Exchange::new(self, remote).with_server(server)
    }
}

impl Driver for Asking {
    fn poll_step(&mut self, cx: &mut Context<'_>) -> Poll<Step> {
        let step = std::task::ready!(self.inner.poll_step(cx));
        let Step::End(End { outcome: Outcome::Error(error), .. }) = &step else { return Poll::Ready(step) };
        let Some(needed) = &error.login else { return Poll::Ready(step) };
        let (revision, nothing) = (self.caller.revision, Capabilities::none());
        let declared = if self.declined { &nothing } else { &self.caller.capabilities };
        Poll::Ready(ask(revision, declared, &self.asked, needed).map_or(step, Step::End))
    }
}

#[cfg(test)]
mod tests {
    use lb_exchange::{Mount, Principal, ServerName};
    use serde_json::{Value, json};

    use super::*;

    const URL: &str = "https://login.example/authorize?state=a";

    fn needed() -> LoginNeeded {
        let server = ServerName::parse("files").expect("a name");
        LoginNeeded { server, id: "l1".to_owned(), url: URL.to_owned() }
    }

    fn value(raw: &Raw) -> Value {
        serde_json::from_str(raw.as_str()).expect("JSON")
    }

    /// What a client is told, and the era of it.
    fn told(revision: Revision, declared: &'static str, method: &str) -> (Value, Option<Era>) {
        let end = ask(revision, &Capabilities(Raw::from_static(declared)), method, &needed());
        match end.map(|end| (end.outcome, end.era)) {
            Some((Outcome::Result(result), era)) => (value(&result), era),
            Some((Outcome::Error(error), era)) => (json!({ "code": error.code, "error": value(&error.raw) }), era),
            Some((Outcome::Cancelled, era)) => (json!("cancelled"), era),
            None => (Value::Null, None),
        }
    }

    #[test]
    fn every_client_is_asked_in_the_best_way_that_it_can_show() {
        use Revision::{V2024_11_05, V2025_03_26, V2025_06_18, V2025_11_25, V2026_07_28};
        let (links, forms) = (r#"{"elicitation":{"url":{}}}"#, r#"{"elicitation":{"form":{}}}"#);
        let (bare, odd) = (r#"{"elicitation":{}}"#, r#"{"elicitation":{"url":null}}"#);
        let both = r#"{"elicitation":{"form":{},"url":{}},"sampling":{}}"#;
        let message = "Log in at server 'files' to go on";
        let elicitation = json!({ "mode": "url", "elicitationId": "l1", "url": URL, "message": message });
        let error = json!({ "code": -32042, "error": {
            "code": -32042, "message": message, "data": { "elicitations": [elicitation] },
        }});
        let params = json!({ "mode": "url", "url": URL, "message": message });
        let question = json!({ "resultType": "input_required", "requestState": "landbridge/login:l1", "inputRequests": {
            "landbridge/login": { "method": "elicitation/create", "params": params },
        }});
        let text = format!(
            "Server 'files' needs a login. Ask the user to open this link in a browser and to log in there, then call \
             the tool again: {URL}"
        );
        let result = json!({ "content": [{ "type": "text", "text": text }], "isError": true });
        let (call, list, read) = ("tools/call", "tools/list", "resources/read");
        let modern = Some(Era::Modern);
        for (revision, declared, method, want, era) in [
            (V2025_11_25, links, call, &error, None),
            (V2025_11_25, both, call, &error, None),
            (V2025_11_25, links, list, &error, None),
            (V2025_11_25, forms, call, &result, None),
            (V2025_11_25, bare, call, &result, None),
            (V2025_11_25, odd, call, &result, None),
            (V2025_11_25, "{}", list, &Value::Null, None),
            (V2025_06_18, links, call, &result, None),
            (V2025_06_18, links, read, &Value::Null, None),
            (V2025_03_26, "{}", call, &result, None),
            (V2024_11_05, "{}", call, &result, None),
            (V2026_07_28, links, call, &question, modern),
            (V2026_07_28, both, "prompts/get", &question, modern),
            (V2026_07_28, links, read, &question, modern),
            (V2026_07_28, links, list, &Value::Null, None),
            (V2026_07_28, links, "server/discover", &Value::Null, None),
            (V2026_07_28, forms, call, &result, None),
            (V2026_07_28, "{}", read, &Value::Null, None),
        ] {
            assert_eq!(told(revision, declared, method), (want.clone(), era), "{revision} {declared} {method}");
        }
    }

    fn call(revision: Revision, params: &Value) -> Call {
        let caller = Caller {
            principal: Principal::local(),
            client: None,
            family: None,
            revision,
            capabilities: Capabilities::none(),
            client_info: None,
        };
        let message = json!({ "jsonrpc": "2.0", "id": "c", "method": "tools/call", "params": params }).to_string();
        let message = Message::scan(message.into()).expect("a message");
        Call { caller: Arc::new(caller), mount: Mount::Default, message, headers: None, trace: None, rights: None }
    }

    #[test]
    fn the_answer_to_our_own_question_is_taken_out_and_that_to_another_is_not() {
        let modern = Revision::V2026_07_28;
        let own = |action: &str| {
            let responses = json!({ "landbridge/login": { "action": action } });
            json!({ "name": "t", "inputResponses": responses, "requestState": "landbridge/login:l1", "x": 1.0 })
        };
        let others = json!({ "name": "t", "inputResponses": { "q": { "action": "accept" } }, "requestState": "s" });
        let plain = json!({ "name": "t", "x": 1.0 });
        for (revision, params, want, answered) in [
            (modern, own("accept"), plain.clone(), Some((true, Some("l1")))),
            (modern, own("decline"), plain, Some((false, Some("l1")))),
            (modern, others.clone(), others, None),
            (Revision::V2025_11_25, own("accept"), own("accept"), None),
        ] {
            let (call, got) = taken(call(revision, &params));
            assert_eq!(value(&call.message.body().expect("params")), want, "{params}");
            let got = got.as_ref().map(|answered| (answered.accepted, answered.login.as_deref()));
            assert_eq!(got, answered, "{params}");
        }
    }
}
