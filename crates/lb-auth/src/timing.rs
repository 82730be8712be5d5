//! How long a secret is looked at does not say how much of a guess is right.
//!
//! Guesses that differ from the secret at once and at the very end take turns by chance, and Welch's t tells whether the
//! time they take can be told apart, as dudect does, by its usual bound. With `LANDBRIDGE_LONG` set it takes a million of each,
//! otherwise a fifth of that.

use std::hint::black_box;
use std::time::{Instant, SystemTime};

use crate::apikey::{ApiKeys, new_key};
use crate::auth::same;
use crate::keys::Keys;
use crate::scope::Scopes;
use crate::secret::{Hash, Secret, random};
use crate::testing::{GATEWAY, at};
use crate::token::{Claims, mint, seconds, verify};

/// How large t may be.
const BOUND: f64 = 4.5;

/// How many are measured.
fn samples() -> usize {
    if std::env::var_os("LANDBRIDGE_LONG").is_some() { 2_000_000 } else { 400_000 }
}

/// How many digits of a guess are wrong: so many that guesses of a kind are many, and what one of them costs by chance does
/// not tell.
const WRONG: usize = 12;

/// A guess, always in the same place of memory, made by the same writes whatever its kind is: otherwise the machine, which
/// is not done with them when the clock begins, would tell the kinds apart.
struct Guess {
    text: Vec<u8>,
    right: Vec<u8>,
    /// Where the wrong digits of each kind stand.
    places: [usize; 2],
}

impl Guess {
    /// `from` is the first byte that is secret. The last one stays: in base64 not every one can stand there.
    fn at(secret: &str, from: usize) -> Self {
        let right = secret.as_bytes().to_vec();
        let places = [from, right.len() - 1 - WRONG];
        Self { text: right.clone(), right, places }
    }

    /// Makes one of this kind, of these random bits.
    fn make(&mut self, kind: usize, bits: u64) {
        // Nothing is decided by the kind: what the machine expects to come next must not depend on it.
        let kind = kind as u8;
        let masks = black_box([kind.wrapping_sub(1), kind.wrapping_neg()]);
        for (place, is_it) in self.places.into_iter().zip(masks) {
            for digit in 0..WRONG {
                let wrong = b"0123456789abcdef"[(bits >> (4 * digit)) as usize & 15];
                let right = self.right[place + digit];
                self.text[place + digit] = (wrong & is_it) | (right & !is_it);
            }
        }
    }
}

/// Welch's t of the times of both kinds of guesses.
fn t_of(secret: &str, from: usize, samples: usize, looked_at: impl Fn(&str) -> bool) -> f64 {
    assert!(looked_at(secret), "the right one is right");
    let mut guess = Guess::at(secret, from);
    let mut bits = u64::from_le_bytes(random::<8>()) | 1;
    let mut times: Vec<(usize, f64)> = Vec::with_capacity(samples);
    while times.len() < samples {
        bits ^= bits << 13;
        bits ^= bits >> 7;
        bits ^= bits << 17;
        let kind = usize::from(bits & 1 == 1);
        guess.make(kind, bits >> 16);
        let text = std::str::from_utf8(black_box(&guess.text)).unwrap();
        // The writes are done when the clock begins.
        std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
        let began = Instant::now();
        let right = looked_at(black_box(text));
        let took = began.elapsed();
        // A guess may be right by chance.
        if !right {
            times.push((kind, took.as_nanos() as f64));
        }
    }
    welch(times)
}

/// What is guessed at: what it is, its value, from where on it is secret, and the check that a guess goes through.
type Subject<'a> = (&'a str, &'a str, usize, &'a dyn Fn(&str) -> bool);

/// What was disturbed by the machine is left out: the slowest tenth, of whatever kind.
fn welch(times: Vec<(usize, f64)>) -> f64 {
    let mut sorted: Vec<f64> = times.iter().map(|(_, time)| *time).collect();
    sorted.sort_by(f64::total_cmp);
    let limit = sorted[sorted.len() * 9 / 10];
    let [one, other] = [0, 1].map(|kind| {
        let kept: Vec<f64> =
            times.iter().filter(|(of, time)| *of == kind && *time <= limit).map(|(_, time)| *time).collect();
        let count = kept.len() as f64;
        let mean = kept.iter().sum::<f64>() / count;
        let variance = kept.iter().map(|time| (time - mean).powi(2)).sum::<f64>() / (count - 1.0);
        (mean, variance / count)
    });
    // A clock that is coarser than all of them shows no difference and no spread.
    let spread = (one.1 + other.1).sqrt();
    if spread == 0.0 { 0.0 } else { (one.0 - other.0) / spread }
}

#[test]
fn how_long_a_secret_is_looked_at_does_not_tell_what_it_is() {
    let samples = samples();
    let keys = Keys::new(b"a-key-for-these-measurements-of-32-bytes-or-more", None).unwrap();
    let (state, operator) = (Secret::random(), Secret::random());
    let hash: Hash = operator.hash();
    let mark = keys.form_mark("id", "cookie");
    let (key, line) = new_key("ci", &Scopes::default()).unwrap();
    let programs = ApiKeys::parse(&line).unwrap();
    let refresh = Secret::random();
    let refresh_mark = keys.mark(refresh.expose().as_bytes());
    let now = at(0);
    let token = signed(&keys, now);
    let signature = token.rfind('.').unwrap() + 1;
    let subjects: [Subject<'_>; 6] = [
        ("the mark of a form", &mark, 0, &|guess| keys.is_form_marked("id", "cookie", guess)),
        ("the state of a login", state.expose(), 0, &|guess| same(state.expose(), guess)),
        ("a secret of a client or the operator", operator.expose(), 0, &|guess| hash == Hash::of(guess.as_bytes())),
        ("a key of a program", key.expose(), 4, &|guess| programs.find(guess).is_some()),
        ("a refresh token", refresh.expose(), 0, &|guess| keys.is_marked(guess.as_bytes(), &refresh_mark)),
        ("the signature of a token", &token, signature, &|guess| verify(&keys, GATEWAY, guess, now).is_ok()),
    ];
    for (what, secret, from, looked_at) in subjects {
        // What chance shows once, it does not show three times.
        let mut found = Vec::new();
        while found.len() < 3 && found.last().is_none_or(|t: &f64| BOUND <= t.abs()) {
            found.push(t_of(secret, from, samples, looked_at));
        }
        eprintln!("{what}: t {found:.2?}");
        assert!(found.last().is_some_and(|t| t.abs() < BOUND), "{what}: t {found:?}");
    }
}

#[test]
fn what_compares_byte_by_byte_is_found_out() {
    let secret = "s".repeat(4_096);
    let tells = |guess: &str| guess.len() == secret.len() && guess.bytes().zip(secret.bytes()).all(|(a, b)| a == b);
    let t = t_of(&secret, 0, 2_000, tells);
    assert!(30.0 < t.abs(), "t {t}");
}

/// A token as we make them.
fn signed(keys: &Keys, now: SystemTime) -> String {
    let claims = Claims {
        iss: GATEWAY.into(),
        sub: "u_1".into(),
        aud: format!("{GATEWAY}/mcp"),
        client_id: "mcp_1".into(),
        scope: "mcp:read".into(),
        iat: seconds(now),
        exp: seconds(now) + 900,
        jti: "j".into(),
        fam: "f".into(),
        epo: 1,
    };
    mint(keys, &claims).unwrap()
}
