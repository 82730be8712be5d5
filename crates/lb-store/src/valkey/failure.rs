//! What an error of a server or of a connection means to the caller.

use std::time::SystemTime;

use redis::{ErrorKind, RedisError};

use crate::Error;

/// Turns an error around; the password never shows in it.
pub(super) fn read(error: &RedisError, password: Option<&str>, since: SystemTime) -> Error {
    let text = match password {
        Some(password) => error.to_string().replace(password, "***"),
        None => error.to_string(),
    };
    match error.code().unwrap_or_default() {
        "OOM" => return Error::Full(text),
        "MISCONF" => return Error::Full(format!("the server cannot write to its disk: {text}")),
        "WRONGPASS" | "NOAUTH" => return Error::Refused(format!("wrong user or password for the server: {text}")),
        "NOPERM" => return Error::Refused(format!("the user lacks rights on the server: {text}")),
        "LOADING" | "MASTERDOWN" | "CLUSTERDOWN" | "TRYAGAIN" | "READONLY" | "BUSY" | "MOVED" | "ASK"
        | "NOREPLICAS" | "UNKILLABLE" => {
            return Error::Away { since, why: text };
        }
        _ => {}
    }
    match error.kind() {
        ErrorKind::AuthenticationFailed => Error::Refused(format!("wrong user or password for the server: {text}")),
        // A certificate that is not trusted is no passing trouble.
        ErrorKind::Io if text.contains("certificate") => Error::Refused(text),
        ErrorKind::Io | ErrorKind::Parse | ErrorKind::ClusterConnectionNotFound => Error::Away { since, why: text },
        _ => Error::Refused(text),
    }
}

/// Whether the connection is of no more use.
pub(super) fn breaks_connection(error: &RedisError) -> bool {
    matches!(error.kind(), ErrorKind::Io | ErrorKind::Parse)
}

/// Whether the server did not do it because another one should: the map of the cluster is old.
pub(super) fn is_elsewhere(error: &RedisError) -> bool {
    matches!(error.code(), Some("MOVED" | "READONLY"))
}
