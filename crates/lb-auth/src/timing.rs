//! How long a secret is looked at does not say how much of a guess is right.
//!
//! Guesses that differ from the secret at once and at the very end take turns by chance, and Welch's t tells whether the
//! time they take can be told apart, as dudect does. With `LANDBRIDGE_LONG` set it takes a million of each and holds the
//! usual bound; without, it takes few and would find what compares byte by byte.

use std::hint::black_box;
use std::time::{Instant, SystemTime};

use crate::apikey::{ApiKeys, new_key};
use crate::auth::same;
use crate::keys::Keys;
use crate::scope::Scopes;
use crate::secret::{Hash, Secret, random};
use crate::testing::{GATEWAY, at};
use crate::token::{Claims, mint, seconds, verify};

/// How many are measured, and how large t may be.
struct Size {
    samples: usize,
    bound: f64,
}

impl Size {
    fn of_this_run() -> Self {
        if std::env::var_os("LANDBRIDGE_LONG").is_some() {
            Self { samples: 2_000_000, bound: 4.5 }
        } else {
            // Far more than chance, far less than what a comparison byte by byte shows.
            Self { samples: 20_000, bound: 30.0 }
        }
    }
}

/// Guesses of one kind; each is another one, so that what one of them costs by chance does not tell.
const GUESSES: usize = 256;

/// The secret with other digits from a place on. The last one stays: in base64 not every one can stand there.
fn wrong_from(secret: &str, place: usize) -> String {
    let mut bytes = secret.as_bytes().to_vec();
    let last = bytes.len() - 1;
    for byte in &mut bytes[place..last] {
        *byte = b"0123456789abcdef"[usize::from(random::<1>()[0] % 16)];
    }
    let text = String::from_utf8(bytes).unwrap();
    if text == secret { wrong_from(secret, place) } else { text }
}

/// Welch's t of the times of both kinds of guesses. `from` is the first byte that is secret.
fn t_of(secret: &str, from: usize, samples: usize, looked_at: impl Fn(&str) -> bool) -> f64 {
    assert!(looked_at(secret), "the right one is right");
    let of = |place: usize| (0..GUESSES).map(|_| wrong_from(secret, place)).collect::<Vec<_>>();
    let guesses = [of(from), of(secret.len() - 5)];
    let mut place = u64::from_le_bytes(random::<8>()) | 1;
    // One buffer for all, so that where a guess lies in memory does not tell.
    let mut buffer = String::with_capacity(secret.len());
    let mut times: Vec<(usize, f64)> = Vec::with_capacity(samples);
    for _ in 0..samples {
        place ^= place << 13;
        place ^= place >> 7;
        place ^= place << 17;
        let kind = usize::from(place & 1 == 1);
        buffer.clear();
        buffer.push_str(&guesses[kind][usize::from((place >> 8) as u8)]);
        let began = Instant::now();
        let right = looked_at(black_box(&buffer));
        let took = began.elapsed();
        assert!(!right);
        times.push((kind, took.as_nanos() as f64));
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
    let Size { samples, bound } = Size::of_this_run();
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
        while found.len() < 3 && found.last().is_none_or(|t: &f64| bound <= t.abs()) {
            found.push(t_of(secret, from, samples, looked_at));
        }
        eprintln!("{what}: t {found:.2?}");
        assert!(found.last().is_some_and(|t| t.abs() < bound), "{what}: t {found:?}");
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
