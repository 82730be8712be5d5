//! Method names, and the facts the gateway acts on: who sends it, in which revisions, what it mirrors and may answer.

use super::{
    Era, Revision,
    Revision::{V2024_11_05, V2025_06_18, V2025_11_25, V2026_07_28},
};

/// What is fixed about a method by the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MethodFacts {
    /// The method itself.
    pub name: &'static str,
    /// Who may send it as a message.
    pub sender: Sender,
    /// Request or notification.
    pub kind: Kind,
    /// First revision that has it as a message.
    pub first: Revision,
    /// Last revision that has it as a message.
    pub last: Revision,
    /// What became of it in the modern era.
    pub modern: Modern,
    /// The member of `params` that `Mcp-Name` repeats on the modern wire.
    pub mirror: Option<Mirror>,
    /// A modern server may answer it with `input_required`.
    pub input_required: bool,
    /// Its complete modern result carries `ttlMs` and `cacheScope`.
    pub cacheable: bool,
}

/// Who may send a method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sender {
    /// Client to server only.
    Client,
    /// Server to client only.
    Server,
    /// Both ways.
    Either,
}

/// Whether a method is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Has an id and gets one answer.
    Request,
    /// Has no id and gets none.
    Notification,
}

/// What the modern era does with a method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Modern {
    /// One of the closed list of core client requests.
    Request,
    /// A client request of the tasks extension; -32601 unless the server has it.
    TasksExtension,
    /// A notification.
    Notification,
    /// Lives on inside `inputRequests` only.
    Input,
    /// Gone: a request with it is -32601 and 404.
    Removed,
}

/// The member of `params` that a request's `Mcp-Name` header repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mirror {
    /// `params.name`
    Name,
    /// `params.uri`
    Uri,
    /// `params.taskId`
    TaskId,
}

impl Mirror {
    /// The member's key.
    #[must_use]
    pub const fn key(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Uri => "uri",
            Self::TaskId => "taskId",
        }
    }
}

impl MethodFacts {
    /// The revision has this method as a message of its own.
    #[must_use]
    pub fn known_in(&self, revision: Revision) -> bool {
        self.first <= revision && revision <= self.last
    }

    /// A client may send it to a modern server (core or tasks extension).
    #[must_use]
    pub const fn is_modern_request(&self) -> bool {
        matches!(self.modern, Modern::Request | Modern::TasksExtension)
    }

    /// A client may send it as a request in this era.
    #[must_use]
    pub fn is_client_request(&self, era: Era) -> bool {
        match era {
            Era::Modern => self.is_modern_request(),
            Era::Legacy => {
                self.kind == Kind::Request && self.sender != Sender::Server && self.first <= Revision::LATEST_LEGACY
            }
        }
    }

    const fn new(sender: Sender, kind: Kind, modern: Modern) -> Self {
        let last = match modern {
            Modern::Request | Modern::TasksExtension | Modern::Notification => V2026_07_28,
            Modern::Input | Modern::Removed => V2025_11_25,
        };
        let first = V2024_11_05;
        Self { name: "", sender, kind, first, last, modern, mirror: None, input_required: false, cacheable: false }
    }

    const fn client(modern: Modern) -> Self {
        Self::new(Sender::Client, Kind::Request, modern)
    }

    const fn server(modern: Modern) -> Self {
        Self::new(Sender::Server, Kind::Request, modern)
    }

    const fn note(sender: Sender, modern: Modern) -> Self {
        Self::new(sender, Kind::Notification, modern)
    }

    const fn since(self, first: Revision) -> Self {
        Self { first, ..self }
    }

    const fn both_ways(self) -> Self {
        Self { sender: Sender::Either, ..self }
    }

    const fn mirrors(self, mirror: Mirror) -> Self {
        Self { mirror: Some(mirror), ..self }
    }

    const fn may_ask(self) -> Self {
        Self { input_required: true, ..self }
    }

    const fn cacheable(self) -> Self {
        Self { cacheable: true, ..self }
    }
}

/// Makes a name constant per method and the lookup over all of them, so that neither can miss an entry.
macro_rules! methods {
    ($($name:ident $text:literal $facts:expr;)*) => {
        $(#[doc = concat!("`", $text, "`")] pub const $name: &str = $text;)*

        /// The facts of every known method, in the order of this file.
        pub static ALL: &[MethodFacts] = &[$(MethodFacts { name: $text, ..$facts }),*];

        /// What is known of a method, by its name as it stands in the message.
        #[must_use]
        pub fn facts(method: &[u8]) -> Option<&'static MethodFacts> {
            match std::str::from_utf8(method).ok()? {
                $($text => {
                    static FACTS: MethodFacts = MethodFacts { name: $text, ..$facts };
                    Some(&FACTS)
                })*
                _ => None,
            }
        }
    };
}

// The methods of a busy connection come first: the match is tried in this order.
methods! {
    TOOLS_CALL "tools/call" MethodFacts::client(Modern::Request).mirrors(Mirror::Name).may_ask();
    PROGRESS "notifications/progress" MethodFacts::note(Sender::Either, Modern::Notification);
    TOOLS_LIST "tools/list" MethodFacts::client(Modern::Request).cacheable();
    PING "ping" MethodFacts::client(Modern::Removed).both_ways();
    RESOURCES_READ "resources/read" MethodFacts::client(Modern::Request).mirrors(Mirror::Uri).may_ask().cacheable();
    PROMPTS_GET "prompts/get" MethodFacts::client(Modern::Request).mirrors(Mirror::Name).may_ask();
    PROMPTS_LIST "prompts/list" MethodFacts::client(Modern::Request).cacheable();
    RESOURCES_LIST "resources/list" MethodFacts::client(Modern::Request).cacheable();
    RESOURCES_TEMPLATES_LIST "resources/templates/list" MethodFacts::client(Modern::Request).cacheable();
    COMPLETION_COMPLETE "completion/complete" MethodFacts::client(Modern::Request);
    SERVER_DISCOVER "server/discover" MethodFacts::client(Modern::Request).since(V2026_07_28).cacheable();
    SUBSCRIPTIONS_LISTEN "subscriptions/listen" MethodFacts::client(Modern::Request).since(V2026_07_28);

    INITIALIZE "initialize" MethodFacts::client(Modern::Removed);
    LOGGING_SET_LEVEL "logging/setLevel" MethodFacts::client(Modern::Removed);
    RESOURCES_SUBSCRIBE "resources/subscribe" MethodFacts::client(Modern::Removed);
    RESOURCES_UNSUBSCRIBE "resources/unsubscribe" MethodFacts::client(Modern::Removed);

    TASKS_GET "tasks/get" MethodFacts::client(Modern::TasksExtension).both_ways().since(V2025_11_25).mirrors(Mirror::TaskId);
    TASKS_UPDATE "tasks/update" MethodFacts::client(Modern::TasksExtension).since(V2026_07_28).mirrors(Mirror::TaskId);
    TASKS_CANCEL "tasks/cancel" MethodFacts::client(Modern::TasksExtension).both_ways().since(V2025_11_25).mirrors(Mirror::TaskId);
    TASKS_RESULT "tasks/result" MethodFacts::client(Modern::Removed).both_ways().since(V2025_11_25);
    TASKS_LIST "tasks/list" MethodFacts::client(Modern::Removed).both_ways().since(V2025_11_25);

    ELICITATION_CREATE "elicitation/create" MethodFacts::server(Modern::Input).since(V2025_06_18);
    SAMPLING_CREATE_MESSAGE "sampling/createMessage" MethodFacts::server(Modern::Input);
    ROOTS_LIST "roots/list" MethodFacts::server(Modern::Input);

    CANCELLED "notifications/cancelled" MethodFacts::note(Sender::Either, Modern::Notification);
    MESSAGE "notifications/message" MethodFacts::note(Sender::Server, Modern::Notification);
    TOOLS_LIST_CHANGED "notifications/tools/list_changed" MethodFacts::note(Sender::Server, Modern::Notification);
    PROMPTS_LIST_CHANGED "notifications/prompts/list_changed" MethodFacts::note(Sender::Server, Modern::Notification);
    RESOURCES_LIST_CHANGED "notifications/resources/list_changed" MethodFacts::note(Sender::Server, Modern::Notification);
    RESOURCES_UPDATED "notifications/resources/updated" MethodFacts::note(Sender::Server, Modern::Notification);
    SUBSCRIPTIONS_ACKNOWLEDGED "notifications/subscriptions/acknowledged" MethodFacts::note(Sender::Server, Modern::Notification).since(V2026_07_28);
    TASKS "notifications/tasks" MethodFacts::note(Sender::Server, Modern::Notification).since(V2026_07_28);
    INITIALIZED "notifications/initialized" MethodFacts::note(Sender::Client, Modern::Removed);
    ROOTS_LIST_CHANGED "notifications/roots/list_changed" MethodFacts::note(Sender::Client, Modern::Removed);
    ELICITATION_COMPLETE "notifications/elicitation/complete" MethodFacts::note(Sender::Server, Modern::Removed).since(V2025_11_25);
    TASKS_STATUS "notifications/tasks/status" MethodFacts::note(Sender::Either, Modern::Removed).since(V2025_11_25);
}
