//! What a server lists: all pages, as rows.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash as _, Hasher as _};
use std::sync::Arc;

use lb_backend::Connection;
use lb_exchange::{Call, ErrorBody, Exchange, Mount, Outcome, Step};
use lb_session::Prints;
use lb_wire::revision::code;
use lb_wire::{Cursor, Id, Kind, Message, Raw, Span, compose};

use super::input::Ourselves;

/// The lists of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the lists explain themselves")]
pub enum Listing {
    Tools,
    Resources,
    Templates,
    Prompts,
}

impl Listing {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Tools, Self::Resources, Self::Templates, Self::Prompts];

    /// The request that asks for it.
    pub fn method(self) -> &'static str {
        match self {
            Self::Tools => "tools/list",
            Self::Resources => "resources/list",
            Self::Templates => "resources/templates/list",
            Self::Prompts => "prompts/list",
        }
    }

    /// The member of the result that holds it.
    pub fn member(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Resources => "resources",
            Self::Templates => "resourceTemplates",
            Self::Prompts => "prompts",
        }
    }

    /// The capability without which a server has none.
    pub fn capability(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Resources | Self::Templates => "resources",
            Self::Prompts => "prompts",
        }
    }

    /// What a server says when it has changed.
    pub fn changed(self) -> &'static str {
        match self {
            Self::Tools => "notifications/tools/list_changed",
            Self::Resources | Self::Templates => "notifications/resources/list_changed",
            Self::Prompts => "notifications/prompts/list_changed",
        }
    }
}

/// What a server listed, all of it.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// The rows of each list, in the order of [`Listing::ALL`].
    rows: [Vec<Raw>; 4],
}

impl Known {
    /// The rows of one list.
    pub fn rows(&self, which: Listing) -> &[Raw] {
        self.rows.get(which as usize).map(Vec::as_slice).unwrap_or_default()
    }

    /// How many rows one list has.
    pub fn count(&self, which: Listing) -> usize {
        self.rows(which).len()
    }

    pub(crate) fn set(&mut self, which: Listing, rows: Vec<Raw>) {
        if let Some(place) = self.rows.get_mut(which as usize) {
            *place = rows;
        }
    }

    /// A fingerprint of each list, to see later whether it is another.
    pub(super) fn prints(&self) -> Prints {
        self.rows.each_ref().map(|rows| {
            let mut hasher = DefaultHasher::new();
            for row in rows {
                row.as_bytes().hash(&mut hasher);
            }
            hasher.finish()
        })
    }
}

/// What a server says whose lists were this before, and are that now.
pub(super) fn changes(before: Prints, now: Prints) -> Vec<&'static str> {
    let mut told: Vec<&'static str> = Vec::new();
    for ((which, before), now) in Listing::ALL.into_iter().zip(before).zip(now) {
        if before != now && !told.contains(&which.changed()) {
            told.push(which.changed());
        }
    }
    told
}

/// Pages that are read of one list; a server with more has a cursor that never ends.
const PAGES_MAX: usize = 1000;

/// Rows that are taken of one list.
const ROWS_MAX: usize = 10_000;
/// Bytes that are taken of one list.
const BYTES_MAX: usize = 16 << 20;

/// Reads one list to its end. A server that has none gives an empty one.
///
/// # Errors
/// What the server says, or why it could not be asked.
pub async fn read(connection: &Arc<Connection>, ourselves: &Ourselves, which: Listing) -> Result<Vec<Raw>, ErrorBody> {
    if !connection.declares(which.capability(), None) {
        return Ok(Vec::new());
    }
    let mut rows = Vec::new();
    let mut cursor: Option<Raw> = None;
    for _ in 0..PAGES_MAX {
        let page = page(connection, ourselves, which, cursor.as_ref()).await;
        let page = match page {
            // Templates are optional even where there are resources.
            Err(error) if error.code == code::METHOD_NOT_FOUND => break,
            page => page?,
        };
        rows.extend(page.member(which.member()).map(|list| objects(&list)).unwrap_or_default());
        let bytes: usize = rows.iter().map(|row| row.as_bytes().len()).sum();
        if ROWS_MAX < rows.len() || BYTES_MAX < bytes {
            let message = format!("its {} has more than {ROWS_MAX} rows or {} MiB", which.method(), BYTES_MAX >> 20);
            return Err(ErrorBody::new(code::INTERNAL_ERROR, &message, None));
        }
        let next = page.member("nextCursor").filter(|next| next.as_bytes() != b"null");
        if next.is_none() || next == cursor {
            break;
        }
        cursor = next;
    }
    Ok(rows)
}

async fn page(
    connection: &Arc<Connection>,
    ourselves: &Ourselves,
    which: Listing,
    cursor: Option<&Raw>,
) -> Result<Raw, ErrorBody> {
    let params = cursor.map(|cursor| compose::object(&[("cursor", cursor)]));
    let mut exchange = open(connection, ourselves, which.method(), params.as_ref())?;
    loop {
        match exchange.step().await {
            Step::End(end) => {
                return match end.outcome {
                    Outcome::Result(page) => Ok(page),
                    Outcome::Error(error) => Err(error),
                    Outcome::Cancelled => Err(ErrorBody::new(code::INTERNAL_ERROR, "cancelled", None)),
                };
            }
            Step::Ask(ask) => {
                exchange.remote().answer(ask.key, ask.kind.refusal());
            }
            Step::Pause { .. } => {
                exchange.remote().back();
            }
            Step::Note(_) | Step::Withdraw { .. } => {}
        }
    }
}

fn open(
    connection: &Arc<Connection>,
    ourselves: &Ourselves,
    method: &str,
    params: Option<&Raw>,
) -> Result<Exchange, ErrorBody> {
    let meta = ourselves.meta(connection.era(), None, None);
    let params = match (params, meta) {
        (Some(params), Some(meta)) => Some(lb_wire::splice::with(params, &[("_meta", meta)])),
        (None, Some(meta)) => Some(compose::object(&[("_meta", &meta)])),
        (params, None) => params.cloned(),
    };
    let request = compose::request(&Id::number(0), method, params.as_ref());
    let gone = || ErrorBody::new(code::INTERNAL_ERROR, "the server is gone", Some(&gone_data()));
    let message = Message::scan(request.bytes().clone()).map_err(|_| gone())?;
    let caller = ourselves.speaking(connection.era());
    let call = Call { caller, mount: Mount::Tools, message, headers: None, trace: None, rights: None };
    connection.open(call).map_err(|_| gone())
}

fn gone_data() -> Raw {
    Raw::from_static(r#"{"reason":"backend_closed"}"#)
}

/// The objects of an array, in memory that outlives the message; no more than are of use.
pub fn objects(array: &Raw) -> Vec<Raw> {
    let array = array.detached();
    let mut spans: Vec<Span> = Vec::new();
    let walk = Cursor::new(array.as_bytes()).elements(0, |span, kind| {
        if kind == Kind::Object && spans.len() <= ROWS_MAX {
            spans.push(span);
        }
    });
    if walk.is_err() {
        return Vec::new();
    }
    let text = array.bytes();
    spans.into_iter().filter_map(|span| Raw::parse(text.slice(span.start()..span.end())).ok()).collect()
}
