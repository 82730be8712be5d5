//! What a result or an error must gain or lose on its way to a client of the other era.

use lb_exchange::{End, ErrorBody, Outcome};
use lb_wire::revision::method::{MethodFacts, RESOURCES_READ, TOOLS_CALL};
use lb_wire::revision::{Era, code};
use lb_wire::{Kind, Raw, splice};

/// What a modern result has and a legacy one does not.
const MODERN_MEMBERS: [&str; 3] = ["resultType", "ttlMs", "cacheScope"];
const NO_INPUT: &str = "the server needs input that cannot be asked for across protocol eras here";

/// The outcome as a modern client reads it.
pub(crate) fn to_modern(outcome: Outcome, era: Option<Era>, facts: Option<&MethodFacts>) -> Outcome {
    match (outcome, era) {
        (outcome, Some(Era::Modern)) => outcome,
        (Outcome::Result(raw), _) => Outcome::Result(complete(&raw, facts)),
        (Outcome::Error(error), Some(Era::Legacy)) => Outcome::Error(modern_error(error, facts)),
        (outcome @ (Outcome::Error(_) | Outcome::Cancelled), _) => outcome,
    }
}

/// The outcome as a legacy client reads it.
pub(crate) fn to_legacy(outcome: Outcome, era: Option<Era>, facts: Option<&MethodFacts>) -> Outcome {
    match (outcome, era) {
        (outcome, None | Some(Era::Legacy)) => outcome,
        (Outcome::Result(raw), Some(Era::Modern)) => match raw.member("resultType") {
            Some(kind) if kind.as_bytes() != br#""complete""# => needs_input(facts),
            _ => Outcome::Result(splice::without(&raw, &MODERN_MEMBERS)),
        },
        (Outcome::Error(error), Some(Era::Modern)) if error.code == code::INVALID_PARAMS && is_read(facts) => {
            Outcome::Error(recode(&error, code::RESOURCE_NOT_FOUND))
        }
        (outcome, Some(Era::Modern)) => outcome,
    }
}

/// What a legacy client gets when the server answered with questions that only modern clients know. A model can make
/// something of a tool's result, so tools answer with one.
pub(crate) fn needs_input(facts: Option<&MethodFacts>) -> Outcome {
    if facts.is_some_and(|facts| facts.name == TOOLS_CALL) {
        let result = serde_json::json!({ "content": [{ "type": "text", "text": NO_INPUT }], "isError": true });
        return Outcome::Result(Raw::value(&result));
    }
    End::error(code::INTERNAL_ERROR, NO_INPUT, None).outcome
}

fn complete(raw: &Raw, facts: Option<&MethodFacts>) -> Raw {
    if raw.kind() != Kind::Object {
        return raw.clone();
    }
    let kind = ("resultType", Raw::from_static(r#""complete""#));
    if facts.is_some_and(|facts| facts.cacheable) {
        let (ttl, scope) = (("ttlMs", Raw::from_static("0")), ("cacheScope", Raw::from_static(r#""private""#)));
        splice::with(raw, &[kind, ttl, scope])
    } else {
        splice::with(raw, &[kind])
    }
}

fn modern_error(error: ErrorBody, facts: Option<&MethodFacts>) -> ErrorBody {
    match error.code {
        code::RESOURCE_NOT_FOUND if is_read(facts) => recode(&error, code::INVALID_PARAMS),
        forbidden if code::is_forbidden_modern(forbidden) => recode(&error, code::INTERNAL_ERROR),
        _ => error,
    }
}

fn is_read(facts: Option<&MethodFacts>) -> bool {
    facts.is_some_and(|facts| facts.name == RESOURCES_READ)
}

fn recode(error: &ErrorBody, code: i64) -> ErrorBody {
    ErrorBody { code, raw: splice::replace(&error.raw, "code", &Raw::value(&code)), ..error.clone() }
}

#[cfg(test)]
mod tests {
    use lb_wire::revision::method::facts;

    use super::*;

    fn show(outcome: Outcome) -> String {
        match outcome {
            Outcome::Result(raw) => raw.as_str().to_owned(),
            Outcome::Error(error) => format!("{} {}", error.code, error.raw.as_str()),
            Outcome::Cancelled => "cancelled".into(),
        }
    }

    fn error(text: &'static str) -> Outcome {
        Outcome::Error(ErrorBody::from_server(Raw::from_static(text)))
    }

    #[test]
    fn results_gain_and_lose_the_modern_members() {
        let result = |text| Outcome::Result(Raw::from_static(text));
        let (list, call, read) = (facts(b"tools/list"), facts(b"tools/call"), facts(b"resources/read"));
        for (got, want) in [
            (
                to_modern(result(r#"{"tools":[]}"#), Some(Era::Legacy), list),
                r#"{"resultType":"complete","ttlMs":0,"cacheScope":"private","tools":[]}"#,
            ),
            (to_modern(result("{}"), Some(Era::Legacy), call), r#"{"resultType":"complete"}"#),
            (to_modern(result(r#"{"x":1}"#), Some(Era::Modern), list), r#"{"x":1}"#),
            (
                to_modern(error(r#"{"code":-32002,"message":"m","data":{"uri":"u"}}"#), Some(Era::Legacy), read),
                r#"-32602 {"code":-32602,"message":"m","data":{"uri":"u"}}"#,
            ),
            (
                to_modern(error(r#"{"code":-32001,"message":"m"}"#), Some(Era::Legacy), call),
                r#"-32603 {"code":-32603,"message":"m"}"#,
            ),
            (
                to_modern(error(r#"{"code":-32001,"message":"m"}"#), Some(Era::Modern), call),
                r#"-32001 {"code":-32001,"message":"m"}"#,
            ),
            (
                to_legacy(
                    result(r#"{"resultType":"complete","tools":[],"ttlMs":5,"cacheScope":"public"}"#),
                    Some(Era::Modern),
                    list,
                ),
                r#"{"tools":[]}"#,
            ),
            (
                to_legacy(result(r#"{"resultType":"complete"}"#), Some(Era::Legacy), list),
                r#"{"resultType":"complete"}"#,
            ),
            (
                to_legacy(error(r#"{"code":-32602,"message":"m"}"#), Some(Era::Modern), read),
                r#"-32002 {"code":-32002,"message":"m"}"#,
            ),
            (
                to_legacy(error(r#"{"code":-32602,"message":"m"}"#), Some(Era::Modern), call),
                r#"-32602 {"code":-32602,"message":"m"}"#,
            ),
            (
                to_legacy(result(r#"{"resultType":"input_required"}"#), Some(Era::Modern), read),
                &format!(r#"-32603 {{"code":-32603,"message":"{NO_INPUT}"}}"#),
            ),
            (
                to_legacy(result(r#"{"resultType":"input_required"}"#), Some(Era::Modern), call),
                &format!(r#"{{"content":[{{"type":"text","text":"{NO_INPUT}"}}],"isError":true}}"#),
            ),
        ] {
            assert_eq!(show(got), want);
        }
    }
}
