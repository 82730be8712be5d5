//! Who may do what: users, passwords, certificates, prefixes.

use futures_util::TryStreamExt;
use lb_peers::valkey::{Program, Valkey};
use lb_store::{Error, Key, Notice, Settings};

use crate::suite::{LONG, key};

/// What the documentation of the store says that a user needs.
const RIGHTS: &str = "+get +set +del +incrby +setrange +pexpire +type +xadd +xrange +xtrim +xinfo +time +scan +publish \
                      +subscribe +unsubscribe +ping +info +evalsha +script|load";

fn with_user(prefix: &str) -> Valkey {
    let server = Valkey::start();
    let keys = [format!("~{prefix}*"), format!("&{prefix}*")];
    let mut words = vec!["ACL", "SETUSER", "ann", "on", ">hunter2:@/", "-@all"];
    words.extend(RIGHTS.split_ascii_whitespace());
    words.extend(keys.iter().map(String::as_str));
    assert_eq!(server.command(&words), "+OK\r\n");
    assert_eq!(server.command(&["ACL", "SETUSER", "default", "off"]), "+OK\r\n");
    server
}

fn as_ann(server: &Valkey, password: &str) -> Settings {
    Settings::parse(&format!("valkey://ann:{password}@127.0.0.1:{}", server.port)).unwrap()
}

#[tokio::test]
async fn a_user_needs_only_the_rights_that_are_documented() {
    let server = with_user("landbridge:");
    let store = lb_store::open(&as_ann(&server, "hunter2%3a%40%2f")).await.unwrap();
    store.set(&key("a"), "1", LONG).await.unwrap();
    assert!(store.compare_and_set(&key("a"), Some("1".into()), "2", LONG).await.unwrap());
    assert_eq!(store.take(&key("a")).await.unwrap(), Some("2".into()));
    assert_eq!(store.add(&key("n"), 1, LONG).await.unwrap(), 1);
    assert_eq!(store.add(&key("n"), 1, LONG).await.unwrap(), 2);
    store.append(&key("s"), 1, "x", 9, LONG).await.unwrap();
    store.append(&key("s"), 2, "x", 9, LONG).await.unwrap();
    assert_eq!(store.trim(&key("s"), 2).await.unwrap(), 1);
    assert_eq!(store.range(&key("s"), 0, 9).await.unwrap().len(), 1);
    store.claim(&key("c"), "me", LONG).await.unwrap();
    assert!(store.expire(&key("c"), LONG).await.unwrap() && store.delete(&key("c")).await.unwrap());
    let keys: Vec<Key> = store.scan("").try_collect().await.unwrap();
    assert_eq!(keys.len(), 2);
    let mut news = store.subscribe(&key("news")).await.unwrap();
    store.publish(&key("news"), "hi".into()).await.unwrap();
    assert_eq!(news.next().await, Some(Notice::Message("hi".into())));
    let elsewhere = Settings { prefix: "other:".into(), ..as_ann(&server, "hunter2%3a%40%2f") };
    let store = lb_store::open(&elsewhere).await.unwrap();
    let error = store.set(&key("a"), "1", LONG).await.unwrap_err();
    assert!(matches!(error, Error::Refused(_)) && !error.is_temporary(), "{error:?}");
}

#[tokio::test]
async fn a_wrong_password_is_told_and_no_password_is_shown() {
    let server = with_user("landbridge:");
    let settings = as_ann(&server, "swordfish");
    let error = lb_store::open(&settings).await.unwrap_err();
    assert!(matches!(error, Error::Refused(_)) && error.to_string().contains("wrong user or password"), "{error}");
    assert!(!format!("{error} {error:?} {settings:?}").contains("swordfish"));
    let nobody = Settings::parse(&server.url()).unwrap();
    let error = lb_store::open(&nobody).await.unwrap_err();
    assert!(matches!(error, Error::Refused(_)), "{error:?}");
    let store = lb_store::open(&as_ann(&server, "hunter2%3a%40%2f")).await.unwrap();
    assert!(!format!("{store:?}").contains("hunter2"));
}

#[tokio::test]
async fn stores_with_two_prefixes_do_not_see_each_other() {
    let server = Valkey::start();
    let open = async |prefix: &str| {
        let settings = Settings { prefix: prefix.to_owned(), ..Settings::parse(&server.url()).unwrap() };
        lb_store::open(&settings).await.unwrap()
    };
    // One is the beginning of the other, and one looks like a pattern.
    let stores = [open("a:").await, open("a:b:").await, open("*").await, open("").await];
    for (n, store) in stores.iter().enumerate() {
        store.set(&key("k"), n.to_string(), LONG).await.unwrap();
    }
    for (n, store) in stores.iter().enumerate() {
        assert_eq!(store.get(&key("k")).await.unwrap(), Some(n.to_string().into()));
        let keys: Vec<Key> = store.scan("k").try_collect().await.unwrap();
        assert_eq!(keys, [key("k")]);
    }
    let mut news = stores[0].subscribe(&key("news")).await.unwrap();
    stores[1].publish(&key("news"), "not ours".into()).await.unwrap();
    stores[0].publish(&key("news"), "ours".into()).await.unwrap();
    assert_eq!(news.next().await, Some(Notice::Message("ours".into())));
    for prefix in ["a b", "{a}", "ä", &"x".repeat(129)] {
        let settings = Settings { prefix: prefix.to_owned(), ..Settings::parse(&server.url()).unwrap() };
        assert!(matches!(lb_store::open(&settings).await, Err(Error::WrongShape(_))), "prefix {prefix:?}");
    }
}

#[tokio::test]
async fn an_encrypted_connection_trusts_the_given_certificate_only() {
    let folder = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned(), "127.0.0.1".to_owned()]).unwrap();
    let (certificate, secret) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
    std::fs::write(&certificate, made.cert.pem()).unwrap();
    std::fs::write(&secret, made.signing_key.serialize_pem()).unwrap();
    let (cert, key_file) = (certificate.to_string_lossy().into_owned(), secret.to_string_lossy().into_owned());
    let args = [
        "--port",
        "0",
        "--tls-port",
        "PORT",
        "--tls-auth-clients",
        "no",
        "--tls-cert-file",
        &cert,
        "--tls-key-file",
        &key_file,
        "--tls-ca-cert-file",
        &cert,
    ];
    let server = Valkey::start_with(Program::Redis, &args);
    let usual = Settings::parse(&format!("rediss://localhost:{}", server.port)).unwrap();
    let trusting = Settings { ca_file: Some(certificate.clone()), ..usual.clone() };
    let store = lb_store::open(&trusting).await.unwrap();
    store.set(&key("a"), "1", LONG).await.unwrap();
    let mut news = store.subscribe(&key("news")).await.unwrap();
    store.publish(&key("news"), "hi".into()).await.unwrap();
    assert_eq!(news.next().await, Some(Notice::Message("hi".into())));
    let error = lb_store::open(&usual).await.unwrap_err();
    assert!(matches!(error, Error::Refused(_)), "the system does not know it: {error:?}");
    let missing = Settings { ca_file: Some(folder.path().join("none.pem")), ..usual };
    let error = lb_store::open(&missing).await.unwrap_err();
    assert!(matches!(error, Error::Refused(_)) && error.to_string().contains("none.pem"), "{error:?}");
}
