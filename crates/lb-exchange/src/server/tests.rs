use super::*;

#[test]
fn a_name_is_taken_as_written_or_refused() {
    let longest = "n".repeat(32);
    let too_long = "n".repeat(33);
    for (text, want) in [
        ("git", Ok("git")),
        ("Git-Hub_2", Ok("Git-Hub_2")),
        ("-", Ok("-")),
        (longest.as_str(), Ok(longest.as_str())),
        (too_long.as_str(), Err(NameError::Length(33))),
        ("", Err(NameError::Length(0))),
        ("a.b", Err(NameError::Character('.'))),
        ("a b", Err(NameError::Character(' '))),
        ("größe", Err(NameError::Character('ö'))),
        ("a__b", Err(NameError::Separator)),
        ("LandBridge", Err(NameError::Reserved)),
    ] {
        let got = ServerName::parse(text).map(|name| name.to_string());
        assert_eq!(got, want.map(String::from), "input {text:?}");
    }
}

#[test]
fn a_foreign_name_is_mapped_where_something_is_left() {
    let too_long = "n.".repeat(17);
    for (text, want) in [
        ("git", Ok("git")),
        ("my.server", Ok("my-server")),
        ("io.github/x y", Ok("io-github-x-y")),
        ("größe", Ok("gr--e")),
        ("", Err(NameError::Length(0))),
        ("日本", Err(NameError::NothingLeft)),
        ("...", Err(NameError::NothingLeft)),
        ("_", Err(NameError::NothingLeft)),
        ("a__b", Err(NameError::Separator)),
        (too_long.as_str(), Err(NameError::Length(34))),
    ] {
        let got = ServerName::map_from(text).map(|name| name.to_string());
        assert_eq!(got, want.map(String::from), "input {text:?}");
    }
}

#[test]
fn names_differing_in_case_fold_to_one() {
    let folded = |text: &str| ServerName::parse(text).unwrap().folded();
    assert_eq!(folded("Git"), folded("gIT"));
    assert_ne!(folded("git"), folded("hub"));
}

#[test]
fn nothing_secret_is_in_the_debug_output() {
    let secret = || vec![("NAME".to_owned(), Secret::new("hunter2"))];
    let child = Target::Child {
        command: "npx".into(),
        args: vec!["--token=hunter2".into()],
        env: secret(),
        cwd: None,
        inherit_env: false,
    };
    let http = Target::http("https://example.com/mcp?key=hunter2", secret()).unwrap();
    for target in [child, http] {
        let spec = ServerSpec::new(ServerName::parse("git").unwrap(), target);
        let shown = format!("{spec:?} {spec:#?} {}", spec.target.address());
        assert!(!shown.contains("hunter2"), "{shown}");
        assert!(shown.contains("***") && shown.contains("NAME"), "{shown}");
    }
    assert_eq!(format!("{:?}", Secret::new("hunter2")), "***");
    assert_eq!(Secret::new("hunter2").expose(), "hunter2");
}

#[test]
fn a_url_is_absolute_http_and_can_be_sent_as_written() {
    let too_long = format!("http://a/{}", "x".repeat(URL_BYTES_MAX));
    for (url, want) in [
        ("http://localhost:8080/mcp", Ok(())),
        ("HTTPS://example.com", Ok(())),
        ("https://example.com/mcp?a=b&c=%20", Ok(())),
        ("http://[::1]:9/mcp", Ok(())),
        ("http://[::1]", Ok(())),
        ("http://a?b", Ok(())),
        ("", Err(UrlError::Scheme)),
        ("localhost:8080/mcp", Err(UrlError::Scheme)),
        ("ftp://example.com", Err(UrlError::Scheme)),
        ("file:///etc/passwd", Err(UrlError::Scheme)),
        ("http://", Err(UrlError::Host)),
        ("http:///mcp", Err(UrlError::Host)),
        ("http://:80/", Err(UrlError::Host)),
        ("http://...", Err(UrlError::Host)),
        ("http://a%00/", Err(UrlError::Host)),
        ("http://[::1/mcp", Err(UrlError::Host)),
        ("http://[::1]x/mcp", Err(UrlError::Host)),
        ("http://[zz]/mcp", Err(UrlError::Host)),
        ("http://a:0/", Err(UrlError::Port)),
        ("http://a:65536/", Err(UrlError::Port)),
        ("http://a:+80/", Err(UrlError::Port)),
        ("http://a:/", Err(UrlError::Port)),
        ("http://::1/", Err(UrlError::Host)),
        ("http://user:pw@a/", Err(UrlError::UserInfo)),
        ("http://a/?m=b@c", Ok(())),
        ("http://a/#x", Err(UrlError::Fragment)),
        ("http://a/b c", Err(UrlError::Character(' '))),
        ("http://a/\r\nX: y", Err(UrlError::Character('\r'))),
        ("http://a/${X}", Err(UrlError::Character('{'))),
        ("http://bücher.example/", Err(UrlError::Character('ü'))),
        (too_long.as_str(), Err(UrlError::Length)),
    ] {
        assert_eq!(check_url(url), want, "input {url:?}");
    }
}

#[test]
fn isolation_words_round_trip() {
    for isolation in Isolation::ALL {
        assert_eq!(Isolation::parse(isolation.as_str()), Some(isolation));
    }
    assert_eq!(Isolation::parse("Session"), None);
    assert_eq!(Isolation::default(), Isolation::Session);
}

#[test]
fn restart_waits_grow_to_the_longest_and_stay_there() {
    let seconds = |restart: &Restart| [1, 2, 3, 6, 7, 8, u32::MAX].map(|n| restart.delay(n).as_secs());
    assert_eq!(seconds(&Restart::default()), [1, 2, 4, 32, 60, 60, 60]);
    assert_eq!(Restart::default().delay(0), Duration::from_secs(1));
    let flat = Restart { delay_factor: 0.0, ..Restart::default() };
    assert_eq!(seconds(&flat), [1; 7]);
    let none = Restart { delay_first: Duration::ZERO, ..Restart::default() };
    assert_eq!(seconds(&none), [0; 7]);
}

#[test]
fn specs_are_equal_until_anything_differs() {
    let http = |key: &str| Target::http("http://a/", vec![("X-Key".into(), Secret::new(key))]).unwrap();
    let spec = ServerSpec::new(ServerName::parse("a").unwrap(), http("1"));
    assert_eq!(spec, spec.clone());
    assert_ne!(spec, ServerSpec { target: http("2"), ..spec.clone() });
    assert_ne!(spec, ServerSpec { timeout: Some(Duration::from_secs(1)), ..spec.clone() });
    assert_ne!(spec, ServerSpec { restart: Restart { attempts_max: 1, ..Restart::default() }, ..spec.clone() });
}
