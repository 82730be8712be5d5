//! What whoever holds an exchange can say to it, and what a server is told then.

use std::sync::{Arc, Weak};

use lb_exchange::{Answer, AskKey, Audience, Cancel, Command, End, Remote};
use lb_wire::{Id, Raw, compose};

/// An open request that takes commands.
pub trait Commanded {
    /// Answers what the server asked on behalf of this request.
    fn answer(&mut self, key: &AskKey, answer: &Answer);

    /// Closes the request, and tells a server that knows of it.
    fn cancel(&mut self, why: &Cancel);

    /// Notes whether what is said here reaches its client.
    fn heard_by(&mut self, audience: Audience);

    /// Acts on a command; the end, if it was a cancel.
    fn obey(&mut self, command: Command) -> Option<End> {
        if let Some(audience) = command.audience() {
            self.heard_by(audience);
        }
        match command {
            Command::Answer(key, answer) => {
                self.answer(&key, &answer);
                None
            }
            Command::Cancel(why) => {
                self.cancel(&why);
                Some(why.to_end())
            }
            Command::Back | Command::Away | Command::Alone => None,
        }
    }
}

/// Takes the answers to what a connection asks in its feed, for as long as there is one.
pub fn feed_asks<C>(connection: Weak<C>, answer: fn(&Arc<C>, &AskKey, &Answer)) -> Remote
where
    C: Send + Sync + 'static,
{
    Remote::sink(move |command| match (command, connection.upgrade()) {
        (Command::Answer(key, said), Some(connection)) => {
            answer(&connection, &key, &said);
            true
        }
        _ => false,
    })
}

/// What a server is told about a request that nobody wants any more.
pub fn cancelled_params(id: u64, why: &Cancel) -> Raw {
    let id = Id::number(id).to_raw();
    match why {
        Cancel::Said(Some(reason)) => compose::object(&[("requestId", &id), ("reason", reason)]),
        Cancel::Deadline => compose::object(&[("requestId", &id), ("reason", &Raw::string("deadline passed"))]),
        _ => compose::object(&[("requestId", &id)]),
    }
}
