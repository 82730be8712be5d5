//! Which exchange a server's message belongs to: one pure function, the same for every transport.

/// Where a message came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whence {
    /// The response stream of this request of ours.
    Stream(u64),
    /// A stream that belongs to no request: a pipe, or the standalone GET stream.
    Shared,
}

/// What a message says about where it belongs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hints {
    /// It carries this progress token of ours.
    pub progress: Option<u64>,
    /// It carries this subscription id, which is the id of a listen request of ours.
    pub subscription: Option<u64>,
    /// It names a task that this request of ours started.
    pub related: Option<u64>,
    /// It speaks of the connection as a whole: lists and resources that changed.
    pub general: bool,
}

/// One request of ours that has not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InFlight {
    /// Our id.
    pub id: u64,
    /// Whether a server may ask or log on its behalf: calls, reads and prompts, not lists.
    pub eligible: bool,
    /// Whether its client hears what it says.
    pub audience: Audience,
}

/// Whether the client of an exchange hears what that says: the first is best.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Audience {
    /// Somebody reads it, as far as is known.
    #[default]
    Here,
    /// Nobody reads it now; the client knows how to come back for it.
    Away,
    /// The client is gone and can never ask for it.
    Gone,
}

/// What a message is that says nothing about where it belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unnamed {
    /// A notification: who misses it has missed a word.
    Note,
    /// A question, which must find somebody who can answer it.
    Ask {
        /// Whether somebody hears the feed.
        heard: bool,
    },
}

/// Where a message goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Associated {
    /// To the exchange of this request of ours.
    Exchange(u64),
    /// To the feed of the connection.
    Feed,
}

/// Decides where a message of a server belongs. `in_flight` is oldest first.
///
/// A question goes where somebody is. Where nobody hears the feed, one of several calls that could be meant gets it: of
/// those whose clients are nearest the oldest.
pub fn associate(
    whence: Whence,
    hints: Hints,
    in_flight: impl Iterator<Item = InFlight> + Clone,
    unnamed: Unnamed,
) -> Associated {
    let open = |id: u64| in_flight.clone().any(|call| call.id == id);
    if hints.general && hints.subscription.is_none() {
        return Associated::Feed;
    }
    let named = match whence {
        Whence::Stream(id) => Some(id),
        Whence::Shared => None,
    };
    let names = [named, hints.subscription, hints.progress, hints.related];
    if let Some(id) = names.into_iter().flatten().find(|id| open(*id)) {
        return Associated::Exchange(id);
    }
    // What names a request that is over belongs to no other one, least of all to another client's.
    if names.iter().any(Option::is_some) {
        return Associated::Feed;
    }
    let eligible = in_flight.filter(|call| call.eligible);
    let chosen = match unnamed {
        Unnamed::Note => only(eligible),
        Unnamed::Ask { heard: true } => only(eligible).filter(|call| call.audience == Audience::Here),
        // The first of those that are equal.
        Unnamed::Ask { heard: false } => eligible.min_by_key(|call| call.audience),
    };
    chosen.map_or(Associated::Feed, |call| Associated::Exchange(call.id))
}

fn only(mut calls: impl Iterator<Item = InFlight>) -> Option<InFlight> {
    calls.next().filter(|_| calls.next().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTE: Unnamed = Unnamed::Note;
    const UNHEARD: Unnamed = Unnamed::Ask { heard: false };
    const HEARD: Unnamed = Unnamed::Ask { heard: true };

    fn call(eligible: bool) -> impl Fn(u64) -> InFlight {
        move |id| InFlight { id, eligible, audience: Audience::Here }
    }

    #[test]
    fn the_most_exact_sign_wins() {
        let (call, list) = (call(true), call(false));
        let hints = Hints::default();
        let token = |id| Hints { progress: Some(id), ..hints };
        let rows: &[(Whence, Hints, &[InFlight], Unnamed, Associated)] = &[
            (Whence::Stream(2), hints, &[call(1), call(2)], NOTE, Associated::Exchange(2)),
            (Whence::Stream(2), token(1), &[call(1), call(2)], NOTE, Associated::Exchange(2)),
            (Whence::Shared, token(2), &[call(1), call(2)], NOTE, Associated::Exchange(2)),
            (Whence::Shared, Hints { related: Some(1), ..hints }, &[call(1), call(2)], NOTE, Associated::Exchange(1)),
            (Whence::Shared, hints, &[call(1)], NOTE, Associated::Exchange(1)),
            (Whence::Shared, hints, &[list(3), call(1)], NOTE, Associated::Exchange(1)),
            (Whence::Shared, hints, &[list(3)], NOTE, Associated::Feed),
            (Whence::Shared, hints, &[call(1), call(2)], NOTE, Associated::Feed),
            (Whence::Shared, hints, &[call(1), call(2)], UNHEARD, Associated::Exchange(1)),
            (Whence::Shared, Hints { general: true, ..hints }, &[call(1)], UNHEARD, Associated::Feed),
            (Whence::Stream(1), Hints { general: true, ..hints }, &[call(1)], UNHEARD, Associated::Feed),
            (
                Whence::Shared,
                Hints { general: true, subscription: Some(9), ..hints },
                &[list(9)],
                NOTE,
                Associated::Exchange(9),
            ),
            (Whence::Stream(7), hints, &[], NOTE, Associated::Feed),
            (Whence::Stream(7), hints, &[call(1)], UNHEARD, Associated::Feed),
            (Whence::Shared, token(7), &[call(1)], UNHEARD, Associated::Feed),
            (Whence::Shared, Hints { related: Some(7), ..hints }, &[call(1)], UNHEARD, Associated::Feed),
        ];
        for (whence, hints, in_flight, unnamed, want) in rows {
            let got = associate(*whence, *hints, in_flight.iter().copied(), *unnamed);
            assert_eq!(got, *want, "{whence:?} {hints:?} {in_flight:?} {unnamed:?}");
        }
    }
    #[test]
    fn a_question_goes_where_somebody_is() {
        let call = |id, audience| InFlight { id, eligible: true, audience };
        let (here, away, gone) =
            (|id| call(id, Audience::Here), |id| call(id, Audience::Away), |id| call(id, Audience::Gone));
        let (to, feed) = (Associated::Exchange, Associated::Feed);
        let rows: &[(&[InFlight], Unnamed, Associated)] = &[
            (&[away(1), gone(2), here(3), here(4)], UNHEARD, to(3)),
            (&[gone(1), away(2), away(3)], UNHEARD, to(2)),
            (&[gone(1), gone(2)], UNHEARD, to(1)),
            (&[away(1)], UNHEARD, to(1)),
            (&[here(1)], HEARD, to(1)),
            (&[away(1)], HEARD, feed),
            (&[gone(1)], HEARD, feed),
            (&[away(1), here(2)], HEARD, feed),
            (&[away(1)], NOTE, to(1)),
            (&[], UNHEARD, feed),
        ];
        for (in_flight, unnamed, want) in rows {
            let got = associate(Whence::Shared, Hints::default(), in_flight.iter().copied(), *unnamed);
            assert_eq!(got, *want, "{in_flight:?} {unnamed:?}");
        }
    }
}
