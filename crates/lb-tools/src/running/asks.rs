//! Who answers what a server asks during a call.

use lb_exchange::{Ask, AskKind, Caller};
use lb_gateway::AskMode;
use lb_wire::Raw;
use lb_wire::revision::Era;

/// Who answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// The client itself, by its own means.
    Client,
    /// The model, through tools.
    Model,
    /// Nobody.
    Nobody,
}

/// Who answers this.
pub(super) fn way(ask: &Ask, caller: &Caller, mode: AskMode) -> Way {
    if mode == AskMode::Never {
        return Way::Nobody;
    }
    if mode == AskMode::ClientFirst && is_for_client(ask, caller) {
        return Way::Client;
    }
    match ask.kind {
        AskKind::Elicitation | AskKind::Sampling => Way::Model,
        AskKind::Roots | AskKind::Other => Way::Nobody,
    }
}

/// Whether the client declared that it can answer. A modern one is not asked in the middle of a call.
fn is_for_client(ask: &Ask, caller: &Caller) -> bool {
    if caller.era() == Era::Modern {
        return false;
    }
    let can = |name: &str| caller.capabilities.has(name);
    match ask.kind {
        AskKind::Elicitation => caller.revision.elicitation() && can("elicitation") && has_mode(ask, caller),
        AskKind::Sampling => can("sampling"),
        AskKind::Roots => can("roots"),
        AskKind::Other => false,
    }
}

/// A form is what every client has that names no mode; a link must be named.
fn has_mode(ask: &Ask, caller: &Caller) -> bool {
    let declared =
        |mode: &str| caller.capabilities.0.member("elicitation").is_some_and(|raw| raw.member(mode).is_some());
    let mode = ask.params.as_ref().and_then(|params| params.member("mode"));
    match mode.as_ref().and_then(Raw::to_text).as_deref() {
        Some("url") => declared("url"),
        _ => declared("form") || !declared("url"),
    }
}

#[cfg(test)]
mod tests {
    use lb_exchange::{AskKey, Capabilities, Principal, Resume};
    use lb_wire::Text;
    use lb_wire::revision::Revision;

    use super::*;

    fn ask(method: &'static str, params: &'static str) -> Ask {
        Ask {
            key: AskKey(Text::from_static("1")),
            kind: AskKind::of(method),
            method: Text::from_static(method),
            params: Some(Raw::from_static(params)),
            resume: Resume::Live,
        }
    }

    fn caller(revision: Revision, capabilities: &'static str) -> Caller {
        let capabilities = Capabilities(Raw::from_static(capabilities));
        Caller { principal: Principal::local(), client: None, family: None, revision, capabilities, client_info: None }
    }

    #[test]
    fn the_client_answers_what_it_declared_and_the_model_the_rest() {
        use AskMode::{ClientFirst, Model, Never};
        use Revision::{V2025_03_26, V2025_11_25, V2026_07_28};
        let (form, url) = (r#"{"message":"m"}"#, r#"{"mode":"url","url":"https://x"}"#);
        let (elicit, sample, roots) = ("elicitation/create", "sampling/createMessage", "roots/list");
        for (method, params, revision, capabilities, mode, want) in [
            (elicit, form, V2025_11_25, r#"{"elicitation":{}}"#, ClientFirst, Way::Client),
            (elicit, form, V2025_11_25, r#"{"elicitation":{}}"#, Model, Way::Model),
            (elicit, form, V2025_11_25, r#"{"elicitation":{}}"#, Never, Way::Nobody),
            (elicit, form, V2025_11_25, "{}", ClientFirst, Way::Model),
            (elicit, form, V2025_03_26, r#"{"elicitation":{}}"#, ClientFirst, Way::Model),
            (elicit, form, V2026_07_28, r#"{"elicitation":{}}"#, ClientFirst, Way::Model),
            (elicit, form, V2025_11_25, r#"{"elicitation":{"url":{}}}"#, ClientFirst, Way::Model),
            (elicit, url, V2025_11_25, r#"{"elicitation":{"url":{}}}"#, ClientFirst, Way::Client),
            (elicit, url, V2025_11_25, r#"{"elicitation":{}}"#, ClientFirst, Way::Model),
            (sample, "{}", V2025_03_26, r#"{"sampling":{}}"#, ClientFirst, Way::Client),
            (sample, "{}", V2025_03_26, "{}", ClientFirst, Way::Model),
            (roots, "{}", V2025_03_26, r#"{"roots":{}}"#, ClientFirst, Way::Client),
            (roots, "{}", V2025_03_26, "{}", ClientFirst, Way::Nobody),
            ("x/y", "{}", V2025_11_25, r#"{"elicitation":{},"sampling":{}}"#, ClientFirst, Way::Nobody),
        ] {
            let got = way(&ask(method, params), &caller(revision, capabilities), mode);
            assert_eq!(got, want, "{method} {params} {revision} {capabilities} {mode:?}");
        }
    }
}
