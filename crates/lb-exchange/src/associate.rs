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
/// `oldest` settles ties for fronts that have no other way to receive a server's request: the oldest eligible call
/// gets it instead of the feed.
pub fn associate(
    whence: Whence,
    hints: Hints,
    in_flight: impl Iterator<Item = InFlight> + Clone,
    oldest: bool,
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
    let mut eligible = in_flight.clone().filter(|call| call.eligible);
    match (eligible.next(), eligible.next()) {
        (Some(only), None) => Associated::Exchange(only.id),
        (Some(first), Some(_)) if oldest => Associated::Exchange(first.id),
        _ => Associated::Feed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_exact_sign_wins() {
        let call = |id| InFlight { id, eligible: true };
        let list = |id| InFlight { id, eligible: false };
        let hints = Hints::default();
        let token = |id| Hints { progress: Some(id), ..hints };
        let rows: &[(Whence, Hints, &[InFlight], bool, Associated)] = &[
            (Whence::Stream(2), hints, &[call(1), call(2)], false, Associated::Exchange(2)),
            (Whence::Stream(2), token(1), &[call(1), call(2)], false, Associated::Exchange(2)),
            (Whence::Shared, token(2), &[call(1), call(2)], false, Associated::Exchange(2)),
            (Whence::Shared, Hints { related: Some(1), ..hints }, &[call(1), call(2)], false, Associated::Exchange(1)),
            (Whence::Shared, hints, &[call(1)], false, Associated::Exchange(1)),
            (Whence::Shared, hints, &[list(3), call(1)], false, Associated::Exchange(1)),
            (Whence::Shared, hints, &[list(3)], false, Associated::Feed),
            (Whence::Shared, hints, &[call(1), call(2)], false, Associated::Feed),
            (Whence::Shared, hints, &[call(1), call(2)], true, Associated::Exchange(1)),
            (Whence::Shared, Hints { general: true, ..hints }, &[call(1)], true, Associated::Feed),
            (Whence::Stream(1), Hints { general: true, ..hints }, &[call(1)], true, Associated::Feed),
            (
                Whence::Shared,
                Hints { general: true, subscription: Some(9), ..hints },
                &[list(9)],
                false,
                Associated::Exchange(9),
            ),
            (Whence::Stream(7), hints, &[], false, Associated::Feed),
            (Whence::Stream(7), hints, &[call(1)], true, Associated::Feed),
            (Whence::Shared, token(7), &[call(1)], true, Associated::Feed),
            (Whence::Shared, Hints { related: Some(7), ..hints }, &[call(1)], true, Associated::Feed),
        ];
        for (whence, hints, in_flight, oldest, want) in rows {
            let got = associate(*whence, *hints, in_flight.iter().copied(), *oldest);
            assert_eq!(got, *want, "{whence:?} {hints:?} {in_flight:?} oldest {oldest}");
        }
    }
}
