//! Reading a list of a server to its end, as one result.

use lb_backend::Connection;
use lb_exchange::{Caller, Outcome};
use lb_wire::compose::Object;
use lb_wire::revision::{Era, Revision, code};
use lb_wire::{Raw, compose, splice};

use super::snapshot::{elements, empty, list_of};
use crate::live::Listing;

/// Pages that are read of one list; a server with more has a cursor that never ends.
const PAGES_MAX: usize = 1000;
/// Bytes that are taken of one list.
const BYTES_MAX: usize = 16 << 20;

/// Reads one list on behalf of a client: all pages as one, and empty where the server has none.
///
/// Cancel safe: yes.
///
/// # Errors
/// Why it could not be read, in words.
pub async fn read(connection: &Connection, which: Listing, caller: &Caller) -> Result<Raw, String> {
    if !connection.declares(which.capability(), None) {
        return Ok(empty(which, connection.era()));
    }
    let (mut pages, mut bytes, mut cursor) = (Vec::new(), 0, None::<Raw>);
    for _ in 0..PAGES_MAX {
        let page = match connection.request(which.method(), params(connection, caller, cursor.as_ref()).as_ref()).await
        {
            Outcome::Result(page) => page.detached(),
            // Templates are optional even where there are resources.
            Outcome::Error(error) if error.code == code::METHOD_NOT_FOUND && pages.is_empty() => {
                return Ok(empty(which, connection.era()));
            }
            Outcome::Error(error) => {
                let said = error.raw.member("message").and_then(|text| text.to_text().map(|text| text.into_owned()));
                return Err(said.unwrap_or_else(|| "no reason given".to_owned()));
            }
            Outcome::Cancelled => return Err("cancelled".to_owned()),
        };
        bytes += page.as_bytes().len();
        if BYTES_MAX < bytes {
            return Err(format!("it is longer than {} MiB", BYTES_MAX >> 20));
        }
        let next = page.member("nextCursor").filter(|next| next.as_bytes() != b"null");
        pages.push(page);
        if next.is_none() || next == cursor {
            break;
        }
        cursor = next;
    }
    Ok(merged(which, &pages))
}

fn params(connection: &Connection, caller: &Caller, cursor: Option<&Raw>) -> Option<Raw> {
    let params = Object::new().maybe("cursor", cursor);
    let params = match connection.era() {
        Era::Legacy => params,
        Era::Modern => params.raw("_meta", &meta(caller)),
    };
    Some(params).filter(|params| !params.is_empty()).map(Object::finish)
}

/// What every request to a modern server says of the client that it is for.
pub fn meta(caller: &Caller) -> Raw {
    Object::new()
        .text("io.modelcontextprotocol/protocolVersion", Revision::LATEST_MODERN.as_str())
        .raw("io.modelcontextprotocol/clientCapabilities", &caller.capabilities.0)
        .maybe("io.modelcontextprotocol/clientInfo", caller.client_info.as_ref())
        .finish()
}

/// The first page with the rows of all of them. A list of one page stays as the server wrote it.
pub(super) fn merged(which: Listing, pages: &[Raw]) -> Raw {
    let Some(first) = pages.first() else { return list_of(which, &[]) };
    if pages.len() == 1 && first.member("nextCursor").is_none() {
        return first.clone();
    }
    let rows = pages.iter().filter_map(|page| page.member(which.member()));
    let rows: Vec<Raw> = rows.flat_map(|rows| elements(&rows)).collect();
    let whole = splice::replace(first, which.member(), &compose::array(rows.iter()));
    splice::without(&whole, &["nextCursor"])
}
