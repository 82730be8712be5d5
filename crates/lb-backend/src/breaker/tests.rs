use proptest::prelude::*;

use super::*;

/// What can happen to a breaker. Reports name one of the attempts so far.
#[derive(Clone, Copy, Debug)]
enum Event {
    Attempt,
    Insist,
    Reached(usize),
    Answered(usize),
    Unreached(usize),
    Lost(usize),
    Dropped(usize),
    Wait(Duration),
}

fn event() -> impl Strategy<Value = Event> {
    let which = || 0_usize..12;
    prop_oneof![
        6 => Just(Event::Attempt),
        1 => Just(Event::Insist),
        1 => which().prop_map(Event::Reached),
        1 => which().prop_map(Event::Answered),
        5 => which().prop_map(Event::Unreached),
        2 => which().prop_map(Event::Lost),
        1 => which().prop_map(Event::Dropped),
        3 => (0_u64..70_000).prop_map(|millis| Event::Wait(Duration::from_millis(millis))),
    ]
}

/// The rules in other words: flags and counters, looked at one after the other.
#[derive(Default)]
struct Naive {
    in_a_row: u32,
    /// Openings since the last answer.
    opened: u32,
    closed_until: Option<Instant>,
    /// The attempt that decides.
    probe: Option<usize>,
    last_failure: Option<Instant>,
    /// Attempts made before this one do not count any more.
    first_that_counts: usize,
}

impl Naive {
    fn wait(&self, now: Instant) -> Option<Duration> {
        match (self.probe, self.closed_until) {
            (Some(_), _) => Some(Duration::from_secs(1)),
            (None, Some(until)) if now < until => Some(until - now),
            _ => None,
        }
    }

    fn let_pass(&mut self, number: usize) {
        if self.closed_until.is_some() {
            self.probe = Some(number);
        }
    }

    fn fail(&mut self, number: usize, began: Instant, lost: bool, now: Instant, jitter: f64) {
        let decides = self.probe == Some(number);
        if self.closed_until.is_some() && !decides {
            return;
        }
        if !decides {
            let told_already = lost && self.last_failure.is_some_and(|at| began < at);
            if number < self.first_that_counts || told_already {
                return;
            }
            self.in_a_row += 1;
            self.last_failure = Some(now);
        }
        if decides || self.in_a_row == 5 {
            let seconds = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0].get(self.opened as usize).copied().unwrap_or(60.0);
            self.closed_until = Some(now + Duration::from_secs_f64(seconds).mul_f64(jitter));
            self.opened += 1;
            self.probe = None;
            self.first_that_counts = usize::MAX;
        }
    }

    fn answer(&mut self, number: usize) {
        if self.closed_until.is_none() || self.probe == Some(number) {
            let first_that_counts = self.first_that_counts;
            *self = Self { first_that_counts, ..Self::default() };
        }
    }

    fn reach(&mut self, number: usize) {
        if self.probe == Some(number) {
            (self.probe, self.closed_until, self.in_a_row, self.last_failure) = (None, None, 4, None);
        }
    }

    fn drop(&mut self, number: usize, now: Instant) {
        if self.probe == Some(number) {
            (self.probe, self.closed_until) = (None, Some(now));
        }
    }
}

/// One history on both, compared after every event.
fn compare(events: &[Event], jitter: f64) -> Result<(), TestCaseError> {
    let (mut breaker, mut naive) = (Breaker::default(), Naive::default());
    let mut now = Instant::now();
    let mut attempts: Vec<Option<Pass>> = Vec::new();
    for event in events {
        match *event {
            Event::Attempt => {
                let (got, want) = (breaker.admit(now), naive.wait(now));
                prop_assert_eq!(got.err(), want, "{:?}", breaker);
                if let Ok(pass) = got {
                    admitted(&mut naive, &mut attempts, pass)?;
                }
            }
            Event::Insist => {
                let got = breaker.insist(now);
                prop_assert_eq!(got.is_none(), naive.probe.is_some());
                if let Some(pass) = got {
                    admitted(&mut naive, &mut attempts, pass)?;
                }
            }
            Event::Reached(which) => {
                // Its own report is still to come.
                if let Some(pass) = attempts.get(which).copied().flatten() {
                    breaker.reached(pass);
                    naive.reach(which);
                }
            }
            Event::Answered(which) => {
                if let Some(pass) = attempts.get_mut(which).and_then(Option::take) {
                    breaker.answered(pass);
                    naive.answer(which);
                }
            }
            Event::Unreached(which) | Event::Lost(which) => {
                if let Some(pass) = attempts.get_mut(which).and_then(Option::take) {
                    let lost = matches!(event, Event::Lost(_));
                    let how = if lost { Failure::Lost } else { Failure::Unreached };
                    let opened = breaker.failed(pass, how, now, jitter);
                    naive.fail(which, pass.began, lost, now, jitter);
                    prop_assert_eq!(opened.map(|delay| now + delay), opened.and(naive.closed_until));
                }
            }
            Event::Dropped(which) => {
                if let Some(pass) = attempts.get_mut(which).and_then(Option::take) {
                    breaker.released(pass, now);
                    naive.drop(which, now);
                }
            }
            Event::Wait(time) => now += time,
        }
        prop_assert_eq!(breaker.is_open(), naive.closed_until.is_some(), "{:?} after {:?}", breaker, event);
        prop_assert_eq!(breaker.refuses(now), naive.wait(now), "{:?} after {:?}", breaker, event);
        prop_assert!(breaker.refuses(now).is_none_or(|wait| wait <= Duration::from_secs(66)));
    }
    Ok(())
}

fn admitted(naive: &mut Naive, attempts: &mut Vec<Option<Pass>>, pass: Pass) -> Result<(), TestCaseError> {
    prop_assert_eq!(pass.is_probe(), naive.closed_until.is_some());
    prop_assert!(!pass.is_probe() || naive.probe.is_none(), "two probes at a time");
    if naive.first_that_counts == usize::MAX {
        naive.first_that_counts = attempts.len();
    }
    naive.let_pass(attempts.len());
    attempts.push(Some(pass));
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20_000, max_shrink_iters: 10_000, ..ProptestConfig::default() })]

    #[test]
    fn every_history_goes_as_the_naive_model_says(
        events in proptest::collection::vec(event(), 0..60),
        jitter in 0.9_f64..1.1,
    ) {
        compare(&events, jitter)?;
    }
}

const MS: Duration = Duration::from_millis(1);

/// Fails that many attempts, which must all pass.
fn fail(breaker: &mut Breaker, times: u32, now: Instant) {
    for _ in 0..times {
        let pass = breaker.admit(now).unwrap();
        breaker.failed(pass, Failure::Unreached, now, 1.0);
    }
}

#[test]
fn the_fifth_failure_in_a_row_opens_and_an_answer_between_starts_anew() {
    let (mut breaker, now) = (Breaker::default(), Instant::now());
    fail(&mut breaker, 4, now);
    let pass = breaker.admit(now).unwrap();
    breaker.answered(pass);
    fail(&mut breaker, 4, now);
    assert!(!breaker.is_open());
    fail(&mut breaker, 1, now);
    assert_eq!(breaker.admit(now), Err(DELAY_FIRST));
}

#[test]
fn probes_come_after_1_2_4_seconds_up_to_a_minute_and_only_one_at_a_time() {
    let (mut breaker, mut now) = (Breaker::default(), Instant::now());
    fail(&mut breaker, FAILURES_MAX, now);
    for seconds in [1, 2, 4, 8, 16, 32, 60, 60] {
        let wait = breaker.admit(now).unwrap_err();
        assert_eq!(wait, Duration::from_secs(seconds));
        assert!(breaker.admit(now + wait - MS).is_err(), "a millisecond too early");
        now += wait;
        let probe = breaker.admit(now).unwrap();
        assert!(probe.is_probe() && breaker.admit(now).is_err(), "a second probe");
        breaker.failed(probe, Failure::Unreached, now, 1.0);
    }
    now += DELAY_MAX;
    let probe = breaker.admit(now).unwrap();
    breaker.answered(probe);
    assert!(!breaker.is_open());
    fail(&mut breaker, FAILURES_MAX, now);
    assert_eq!(breaker.refuses(now), Some(DELAY_FIRST), "the waits start anew");
}

#[test]
fn calls_that_break_together_are_one_failure() {
    let (mut breaker, now) = (Breaker::default(), Instant::now());
    let open: Vec<_> = (0..20).map(|_| breaker.admit(now).unwrap()).collect();
    for pass in open {
        breaker.failed(pass, Failure::Lost, now + MS, 1.0);
    }
    assert!(!breaker.is_open());
    fail(&mut breaker, 4, now + 2 * MS);
    assert!(breaker.is_open());
}

#[test]
fn a_probe_that_got_a_connection_lets_others_pass_and_one_more_failure_opens_for_longer() {
    let (mut breaker, mut now) = (Breaker::default(), Instant::now());
    fail(&mut breaker, FAILURES_MAX, now);
    now += DELAY_FIRST;
    let probe = breaker.admit(now).unwrap();
    breaker.reached(probe);
    let other = breaker.admit(now).unwrap();
    assert!(!other.is_probe());
    breaker.failed(probe, Failure::Lost, now, 1.0);
    assert_eq!(breaker.refuses(now), Some(2 * DELAY_FIRST));
    breaker.answered(other);
    assert!(breaker.is_open(), "an answer to what was sent before says nothing");
}
