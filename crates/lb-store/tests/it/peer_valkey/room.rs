//! Servers that are full, or would throw away what is alive.

use bytes::Bytes;
use lb_peers::valkey::{Program, Valkey};
use lb_store::{Applied, Batch, Error, Outcome, Settings, Warning};

use crate::suite::{LONG, key};

#[tokio::test]
async fn a_full_server_refuses_writes_whole_and_goes_on_reading() {
    for program in [Program::Valkey, Program::Redis] {
        let server = Valkey::start_with(program, &["--maxmemory", "8mb", "--maxmemory-policy", "noeviction"]);
        let store = lb_store::open(&Settings::parse(&server.url()).unwrap()).await.unwrap();
        let value = Bytes::from(vec![7; 100_000]);
        for seq in 1..=10 {
            store.append(&key("{t}s"), seq, "entry", 99, LONG).await.unwrap();
        }
        let mut kept = 0;
        let error = loop {
            match store.set(&key(&format!("{{t}}{kept}")), value.clone(), LONG).await {
                Ok(()) => kept += 1,
                Err(error) => break error,
            }
            assert!(kept < 1_000, "there is a limit");
        };
        assert!(matches!(error, Error::Full(_)) && error.is_temporary(), "{program:?}: {error:?}");
        assert!(3 < kept);
        // The step that would make room is not done alone.
        let swap = Batch::new().delete(&key("{t}0")).set(&key("{t}x"), value.clone(), LONG);
        assert!(matches!(store.apply(swap).await, Err(Error::Full(_))));
        for n in 0..kept {
            let found = store.get(&key(&format!("{{t}}{n}"))).await.unwrap();
            assert_eq!(found, Some(value.clone()), "{program:?}: nothing is thrown away");
        }
        assert!(store.expire(&key("{t}1"), LONG).await.unwrap(), "what is there can live on");
        // All at once, and only as long as nobody else has it.
        let owned = Batch::new().when(&key("{t}1"), Some(value.clone()));
        let tidy = owned.trim(&key("{t}s"), 6).expire(&key("{t}3"), LONG).delete(&key("{t}2")).take(&key("{t}none"));
        let Applied::Done(outcomes) = store.apply(tidy).await.unwrap() else { panic!("nothing refuses it") };
        assert_eq!(outcomes[0], Outcome::Trimmed(5), "{program:?}");
        store.set(&key("{t}2"), "", LONG).await.unwrap();
        for n in 0..kept {
            assert!(store.delete(&key(&format!("{{t}}{n}"))).await.unwrap(), "and can be removed");
        }
        store.set(&key("again"), value, LONG).await.unwrap();
    }
}

#[tokio::test]
async fn a_server_that_throws_keys_away_is_pointed_out() {
    let server = Valkey::start_with(Program::Valkey, &["--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"]);
    let store = lb_store::open(&Settings::parse(&server.url()).unwrap()).await.unwrap();
    assert_eq!(store.facts().warnings, [Warning::Evicts { policy: "allkeys-lru".into() }]);
}
