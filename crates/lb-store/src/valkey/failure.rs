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
    match code(error) {
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

/// Whether the server did not do it because another one should: the map of the cluster is old, or the address leads to
/// one that was replaced.
pub(super) fn is_elsewhere(error: &RedisError) -> bool {
    matches!(code(error), "MOVED" | "READONLY")
}

/// The word that an error begins with. Servers before 7 put words of their own before that of an error in a script.
fn code(error: &RedisError) -> &str {
    const INSIDE: [&str; 6] = ["OOM", "MISCONF", "NOPERM", "READONLY", "NOREPLICAS", "MASTERDOWN"];
    let code = error.code().unwrap_or_default();
    match error.detail() {
        Some(detail) if code == "ERR" && detail.contains("running script") => {
            INSIDE.into_iter().find(|inside| detail.contains(&format!(" -{inside} "))).unwrap_or(code)
        }
        _ => code,
    }
}

#[cfg(test)]
mod tests {
    use redis::Value;

    use super::*;

    fn error(text: &str) -> RedisError {
        let mut parser = redis::Parser::new();
        match parser.parse_value(format!("-{text}\r\n").as_bytes()).map(Value::extract_error) {
            Ok(Err(error)) | Err(error) => error,
            Ok(Ok(value)) => panic!("{value:?} is no error"),
        }
    }

    #[test]
    fn what_passes_may_be_tried_again_and_what_does_not_is_told() {
        for (text, temporary) in [
            ("OOM command not allowed when used memory > 'maxmemory'.", true),
            ("LOADING Redis is loading the dataset in memory", true),
            ("MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.", true),
            ("CLUSTERDOWN The cluster is down", true),
            ("BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.", true),
            ("NOREPLICAS Not enough good replicas to write.", true),
            ("READONLY You can't write against a read only replica.", true),
            ("ERR Error running script (call to f_1): @user_script:9: @user_script: 9: -OOM command not allowed", true),
            ("ERR Error running script (call to f_1): @user_script:9: @user_script: 9: -READONLY You can't", true),
            ("ERR Error running script (call to f_1): @user_script:9: @user_script: 9: bad argument", false),
            ("ERR unknown command 'X'", false),
            ("NOPERM this user has no permissions to run the 'evalsha' command", false),
            ("WRONGPASS invalid username-password pair or user is disabled.", false),
        ] {
            let meant = read(&error(text), None, SystemTime::now());
            assert_eq!(meant.is_temporary(), temporary, "{text}: {meant:?}");
        }
        assert!(is_elsewhere(&error("READONLY You can't write against a read only replica.")));
        assert!(is_elsewhere(&error("ERR Error running script (x): @user_script: 9: -READONLY You can't")));
        assert!(!is_elsewhere(&error("ERR Error running script (x): @user_script: 9: -OOM x")));
    }
}
