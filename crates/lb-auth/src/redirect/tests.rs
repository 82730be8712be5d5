use proptest::prelude::*;

use super::*;

#[test]
fn addresses_that_can_be_registered() {
    let schemes = ["cursor".to_owned()];
    for good in [
        "https://app.example.com/cb",
        "https://app.example.com",
        "https://app.example.com/",
        "https://app.example.com:8443/cb?x=1",
        "http://127.0.0.1/cb",
        "http://127.0.0.1:33418",
        "http://localhost:1234/oauth/callback",
        "http://[::1]:5/cb",
        "cursor://anysphere.cursor-mcp/oauth/callback",
        "https://app.example.com/a@b",
    ] {
        assert_eq!(check(good, &schemes), Ok(()), "{good}");
    }
    for bad in [
        "vscode://x/y",
        "javascript:alert(1)",
        "data:text/html,x",
        "file:///etc/passwd",
        "http://example.com/cb",
        "http://localhost.evil.test/cb",
        "http://127.0.0.1.evil.test/",
        "http://localhost./cb",
        "http://127.1/cb",
        "http://0x7f.1/cb",
        "http://2130706433/cb",
        "http://0.0.0.0/cb",
        "http://127.0.0.2/cb",
        "http://[::ffff:127.0.0.1]/cb",
        "https://a@b.test/",
        "https://a:b@b.test/",
        "https://b.test/#f",
        "https://b.test/../x",
        "https://b.test/%2e%2e/x",
        "https://b.test/.%2E/x",
        "https://*.b.test/",
        "https://b.test/*",
        "https:\\\\b.test\\",
        "https://b.test\\@evil.test/",
        "HTTPS://b.test/",
        "https://B.test/",
        "https://b.test:443/",
        "https://b.test/\r\nx",
        "https://b.test/\u{202e}",
        "https://bü.test/",
        "//b.test/",
        "/cb",
        "",
        "https://",
        "https:b.test",
        "https:///b.test",
        "http:/127.0.0.1/cb",
        "urn:ietf:wg:oauth:2.0:oob",
    ] {
        assert!(check(bad, &schemes).is_err(), "{bad:?}");
    }
    assert!(check("javascript:alert(1)", &["javascript".into()]).is_err());
    assert!(check(&format!("https://b.test/{}", "a".repeat(2_048)), &[]).is_err());
}

#[test]
fn on_loopback_the_port_is_free_and_the_path_is_not() {
    let known = ["http://127.0.0.1/cb", "https://app.test/cb", "http://localhost:3000/cb?a=b"];
    let is = |text| is_registered(text, known, &[]);
    for good in [
        "http://127.0.0.1/cb",
        "http://127.0.0.1:1/cb",
        "http://127.0.0.1:65535/cb",
        "https://app.test/cb",
        "http://localhost:3000/cb?a=b",
        "http://localhost/cb?a=b",
        "http://localhost:9/cb?a=b",
    ] {
        assert!(is(good), "{good}");
    }
    for bad in [
        "http://127.0.0.1/cb2",
        "http://127.0.0.1/CB",
        "http://127.0.0.1/cb/",
        "http://127.0.0.1/cb?x",
        "http://[::1]/cb",
        "http://localhost/cb",
        "https://127.0.0.1/cb",
        "https://app.test:444/cb",
    ] {
        assert!(!is(bad), "{bad}");
    }
}

/// Ways in which an address was ever made to look like another one.
#[expect(clippy::too_many_lines, reason = "one table")]
fn tricks() -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    let good = "https://app.example.com/cb";
    for end in [
        "/",
        "?",
        "#",
        "?x=1",
        "#x",
        "/..",
        "/../evil",
        "/%2e%2e/evil",
        "%2f..",
        ";x",
        "\\",
        "/\\evil",
        "%00",
        "\0",
        "%0d%0aLocation:%20https://evil.test",
        "\r\n",
        " ",
        "\t",
        "//",
        "/.",
        ".evil",
        "@evil.test",
        "%20",
        "*",
        "&x=1",
        "x",
    ] {
        all.push(format!("{good}{end}"));
    }
    for host in [
        "app.example.com.evil.test",
        "app.example.com@evil.test",
        "evil.test@app.example.com",
        "app.example.com:443@evil.test",
        "evil.test\\@app.example.com",
        "app.example.com\\.evil.test",
        "evil.test#app.example.com",
        "evil.test?app.example.com",
        "app.example.com:80",
        "app.example.com:443",
        "app.example.com:8443",
        "app.example.com.",
        "APP.example.com",
        "app.example.com%2eevil.test",
        "app%2eexample%2ecom",
        "app。example。com",
        "xn--app.example.com",
        "app.examp1e.com",
        "www.app.example.com",
        "example.com",
        "[app.example.com]",
        "app.example.com%00.evil.test",
        "app.example.com%0a",
        "a:b@app.example.com",
        ":@app.example.com",
        "@app.example.com",
        "127.0.0.1",
        "localhost",
        "app.example.com\u{200b}",
        "app.example.com\u{202e}",
        "\u{ff41}pp.example.com",
        "*.example.com",
        "app.example.com,evil.test",
    ] {
        all.push(format!("https://{host}/cb"));
    }
    for scheme in [
        "http",
        "HTTPS",
        "httpſ",
        "javascript",
        "data",
        "vbscript",
        "file",
        "ftp",
        "ws",
        "wss",
        "blob:https",
        "view-source:https",
        "x-https",
        "https:https",
        " https",
        "https ",
        "cursor",
        "about",
    ] {
        all.push(format!("{scheme}://app.example.com/cb"));
    }
    for loopback in [
        "127.0.0.1.evil.test",
        "127.0.0.1@evil.test",
        "evil.test@127.0.0.1",
        "localhost.evil.test",
        "localhost.",
        "127.1",
        "0x7f.0.0.1",
        "0177.0.0.1",
        "2130706433",
        "127.0.0.1%2eevil.test",
        "[::ffff:7f00:1]",
        "[0:0:0:0:0:0:0:1]",
        "127.0.0.1:x",
        "127.0.0.1:99999",
        "127.0.0.1:-1",
        "127.0.0.1:80:80",
        "0.0.0.0",
        "127.0.0.2",
        "LOCALHOST",
        "localhost:80@evil.test",
    ] {
        all.push(format!("http://{loopback}/local"));
    }
    let odd = [
        "//app.example.com/cb",
        "/cb",
        "cb",
        "",
        "https:/app.example.com/cb",
        "https:app.example.com/cb",
        "https:///app.example.com/cb",
        "https:\\\\app.example.com\\cb",
        "https://app.example.com/CB",
        "https://app.example.com//cb",
        "https://app.example.com/./cb",
        "https://app.example.com/x/../cb",
        "https://app.example.com/%63b",
        "https://app.example.com/c%62",
    ];
    all.extend(odd.map(str::to_owned));
    all
}

#[test]
fn a_hundred_tricks_match_nothing() {
    let known =
        ["https://app.example.com/cb", "http://127.0.0.1/local", "http://localhost/local", "http://[::1]/local"];
    let tricks = tricks();
    assert!(100 <= tricks.len(), "{}", tricks.len());
    for trick in tricks {
        assert!(!is_registered(&trick, known, &[]), "{trick:?}");
    }
}

#[test]
fn a_person_is_shown_where_it_goes() {
    for (uri, host, local) in [
        ("https://app.example.com/cb", "app.example.com", false),
        ("http://127.0.0.1:1/cb", "127.0.0.1", true),
        ("http://[::1]:1/cb", "[::1]", true),
        ("cursor://anysphere/x", "cursor:", false),
    ] {
        assert_eq!((shown_host(uri).as_str(), stays_local(uri)), (host, local), "{uri}");
    }
}

proptest! {
    #[test]
    fn any_text_is_read_without_harm_and_only_a_known_one_matches(text in "\\PC{0,60}", tail in "[a-z@./\\\\?#:%]{0,8}") {
        let known = ["https://app.example.com/cb"];
        prop_assert_eq!(is_registered(&text, known, &[]), text == known[0]);
        let longer = format!("{}{tail}", known[0]);
        prop_assert_eq!(is_registered(&longer, known, &[]), tail.is_empty());
    }
}
