//! Many inputs against one parser, and what it made of them.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::{Duration, Instant};

use super::{Rng, damage};

/// No input may take longer than this.
const EACH_MAX: Duration = Duration::from_secs(1);
/// A campaign that the parser refuses throughout tests nothing but its first bytes.
const ACCEPTED_MIN: f64 = 0.10;

/// Inputs for one parser: half of them good ones with 1 to 8 damages, half made from nothing.
#[derive(Debug)]
pub struct Campaign<'a> {
    /// Printed with the results.
    pub name: &'static str,
    /// How many inputs.
    pub count: u64,
    /// Where the random numbers start; input `n` has a random source of its own, seeded with `seed + n`.
    pub seed: u64,
    /// Inputs to start from: those that the parser accepts are damaged, the others only lend their parts.
    pub corpus: &'a [Vec<u8>],
    /// What the parser looks for.
    pub words: &'a [&'a [u8]],
}

impl Campaign<'_> {
    /// Runs it. `fresh` makes an input from nothing; `check` panics when something is wrong, and tells whether the
    /// parser accepted the input.
    ///
    /// # Panics
    /// An input was handled wrongly, took too long, or too few were accepted.
    pub fn run(&self, fresh: impl Fn(&mut Rng) -> Vec<u8>, check: impl Fn(&[u8]) -> bool) {
        let started = Instant::now();
        let (mut slowest, mut accepted) = (Duration::ZERO, [0_u64; 2]);
        let good: Vec<Vec<u8>> = self.corpus.iter().filter(|input| check(input)).cloned().collect();
        let count = if std::env::var_os("LANDBRIDGE_LONG").is_some() { self.count * 10 } else { self.count };
        for n in 0..count {
            let input = self.input(n, &good, &fresh);
            let before = Instant::now();
            let outcome = catch_unwind(AssertUnwindSafe(|| check(&input)));
            let mut took = before.elapsed();
            if EACH_MAX < took && outcome.is_ok() {
                // Once more: the machine may have been doing something else.
                let before = Instant::now();
                check(&input);
                took = took.min(before.elapsed());
            }
            slowest = slowest.max(took);
            match outcome {
                Ok(good) => accepted[usize::from(n % 2 == 1)] += u64::from(good),
                Err(panic) => {
                    eprintln!("{}: seed {:#x}, input {n}: b\"{}\"", self.name, self.seed, input.escape_ascii());
                    resume_unwind(panic);
                }
            }
        }
        let share = |accepted: u64, of: u64| accepted as f64 / of as f64;
        let all = share(accepted[0] + accepted[1], count);
        eprintln!(
            "{}: {count} inputs, seed {:#x}, accepted {:.1} % (damaged {:.1} %, fresh {:.1} %), {:.1?}, slowest {:.1?}",
            self.name,
            self.seed,
            all * 100.0,
            share(accepted[0], count.div_ceil(2)) * 100.0,
            share(accepted[1], count / 2) * 100.0,
            started.elapsed(),
            slowest,
        );
        assert!(ACCEPTED_MIN <= all, "{}: only {:.1} % of the inputs were accepted", self.name, all * 100.0);
        assert!(slowest < EACH_MAX, "{}: one input took {slowest:?}", self.name);
    }

    fn input(&self, n: u64, good: &[Vec<u8>], fresh: &impl Fn(&mut Rng) -> Vec<u8>) -> Vec<u8> {
        let mut rng = Rng::new(self.seed.wrapping_add(n));
        if n % 2 == 1 {
            return fresh(&mut rng);
        }
        let mut input = rng.pick(good);
        damage(&mut rng, &mut input, self.corpus, self.words);
        input
    }
}
