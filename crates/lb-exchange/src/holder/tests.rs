use proptest::prelude::*;

use super::*;

fn front() -> impl Strategy<Value = Front> {
    let loss = prop_oneof![Just(Loss::Cancels), any::<bool>().prop_map(|cursor| Loss::Keeps { cursor })];
    (loss, any::<bool>(), any::<bool>()).prop_map(|(loss, tasks, parks)| Front { loss, tasks, parks })
}

fn happened() -> impl Strategy<Value = Happened> {
    prop_oneof![
        Just(Happened::Ended),
        Just(Happened::Lost),
        Just(Happened::Cancel),
        Just(Happened::Impatient),
        Just(Happened::LiveAsk),
        (0u32..3, front()).prop_map(|(round, front)| Happened::Retry(round, front)),
        Just(Happened::Expired),
        front().prop_map(Happened::Resume),
    ]
}

const MODERN: Front = Front { loss: Loss::Cancels, tasks: false, parks: true };
const LEGACY: Front = Front { loss: Loss::Keeps { cursor: false }, tasks: false, parks: false };
const LEGACY_WITH_CURSOR: Front = Front { loss: Loss::Keeps { cursor: true }, ..LEGACY };
const TOOLS: Front = Front { tasks: true, ..LEGACY };

#[test]
fn every_row_of_the_table() {
    let rows = [
        (Holder::Front(LEGACY), Happened::Ended, Holder::Done),
        (Holder::Front(MODERN), Happened::Lost, Holder::Cancelled),
        (Holder::Front(LEGACY_WITH_CURSOR), Happened::Lost, Holder::Stream { cursor: true }),
        (Holder::Front(LEGACY), Happened::Lost, Holder::Stream { cursor: false }),
        (Holder::Front(TOOLS), Happened::Lost, Holder::Task),
        (Holder::Front(LEGACY), Happened::Cancel, Holder::Cancelled),
        (Holder::Front(TOOLS), Happened::Impatient, Holder::Task),
        (Holder::Front(LEGACY), Happened::Impatient, Holder::Front(LEGACY)),
        (Holder::Front(MODERN), Happened::LiveAsk, Holder::Parked { round: 1 }),
        (Holder::Front(LEGACY), Happened::LiveAsk, Holder::Front(LEGACY)),
        (Holder::Parked { round: 2 }, Happened::Retry(2, MODERN), Holder::Front(MODERN)),
        (Holder::Parked { round: 2 }, Happened::Retry(1, MODERN), Holder::Parked { round: 2 }),
        (Holder::Parked { round: 2 }, Happened::Expired, Holder::Cancelled),
        (Holder::Parked { round: 2 }, Happened::Ended, Holder::Parked { round: 2 }),
        (Holder::Stream { cursor: true }, Happened::Resume(LEGACY), Holder::Front(LEGACY)),
        (Holder::Stream { cursor: false }, Happened::Resume(LEGACY), Holder::Stream { cursor: false }),
        (Holder::Stream { cursor: true }, Happened::Ended, Holder::Done),
        (Holder::Task, Happened::Cancel, Holder::Cancelled),
        (Holder::Task, Happened::Lost, Holder::Task),
        (Holder::Script, Happened::Cancel, Holder::Cancelled),
    ];
    for (holder, event, want) in rows {
        assert_eq!(holder.on(event), want, "{holder:?} on {event:?}");
    }
}

proptest! {
    #[test]
    fn over_means_over_and_losing_a_modern_client_always_cancels(
        start in front(), events in prop::collection::vec(happened(), 0..30)
    ) {
        let mut holder = Holder::Front(start);
        for event in events {
            let next = holder.on(event);
            if holder.is_over() {
                prop_assert_eq!(next, holder, "left {:?} by {:?}", holder, event);
            }
            if let (Holder::Front(Front { loss: Loss::Cancels, .. }), Happened::Lost) = (holder, event) {
                prop_assert_eq!(next, Holder::Cancelled);
            }
            // Only a retry or a resume brings a front back, and a cancel always ends what is not over.
            if matches!(next, Holder::Front(_)) && !matches!(holder, Holder::Front(_)) {
                prop_assert!(matches!(event, Happened::Retry(..) | Happened::Resume(_)));
            }
            if event == Happened::Cancel && !holder.is_over() {
                prop_assert_eq!(next, Holder::Cancelled);
            }
            // What lives on after a legacy loss is never lost a second time.
            if let Holder::Stream { .. } | Holder::Task = holder {
                prop_assert_eq!(holder.on(Happened::Lost), holder);
            }
            holder = next;
        }
        prop_assert!(holder.on(Happened::Cancel).is_over());
    }
}
