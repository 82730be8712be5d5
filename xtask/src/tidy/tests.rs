//! Planted violations: each rule must find its own, and leave what is allowed alone.

use super::*;
use crate::workspace::Dependency;

const OURS: &[&str] = &["lb-wire", "lb-front", "lb-gateway", "lb-peers", "lb-exchange"];

fn check_edges(package: &str, dependencies: &[(&str, Option<&str>)], want: &[&str]) {
    let dependencies = dependencies
        .iter()
        .map(|(name, kind)| Dependency { name: (*name).into(), kind: kind.map(String::from) })
        .collect();
    let package = Package { name: package.into(), dependencies, ..Package::default() };
    assert_eq!(edges(&package, OURS), want, "crate {}", package.name);
}

#[test]
fn an_edge_outside_the_table_is_found() {
    check_edges("lb-front", &[("lb-wire", None), ("serde", None)], &[]);
    check_edges("lb-front", &[("lb-gateway", None)], &["lb-front may not use lb-gateway"]);
    check_edges("lb-front", &[("lb-gateway", Some("build"))], &["lb-front may not use lb-gateway"]);
    check_edges("lb-front", &[("lb-gateway", Some("dev"))], &[]);
    check_edges("lb-peers", &[("lb-wire", Some("dev"))], &["lb-peers may not use lb-wire"]);
    check_edges("landbridge", &[("lb-gateway", None)], &[]);
    check_edges("lb-common", &[], &["lb-common: not in the table of edges"]);
}

#[test]
fn a_crate_without_the_shared_lints_is_found() {
    for (name, manifest, good) in [
        ("lb-wire", "[lints]\nworkspace = true\n", true),
        ("lb-wire", "lints.workspace = true\n", true),
        ("lb-wire", "[package]\nname = \"lb-wire\"\n", false),
        ("lb-wire", "[lints.rust]\nunsafe_code = \"deny\"\n[lints.clippy]\ntodo = \"deny\"\n", false),
        ("lb-process", "[lints.rust]\nunsafe_code = \"deny\"\n[lints.clippy]\ntodo = \"deny\"\n", true),
        ("lb-process", "[package]\nname = \"lb-process\"\n", false),
    ] {
        assert_eq!(lints(name, manifest).is_none(), good, "{name}: {manifest}");
    }
}

fn check_source(file: &str, text: &str, want: &[&str]) {
    let places = ["/srv/build".to_owned()];
    assert_eq!(sources::violations(Path::new(file), text, &places), want, "{file}: {text}");
}

#[test]
fn fixture_names_are_found_in_the_product_only() {
    let text = "//! A module.\nconst TOOL: &str = \"test_simple_text\";\n";
    let found = ["crates/lb-front/src/a.rs:2: `\"test_` belongs to the fixture server"];
    check_source("crates/lb-front/src/a.rs", text, &found);
    for exempt in [
        "crates/lb-peers/src/a.rs",
        "crates/lb-front/src/a/tests.rs",
        "crates/lb-front/tests/it/main.rs",
        "xtask/src/a.rs",
    ] {
        check_source(exempt, text, &[]);
    }
    let uri = "//! A module.\nfn f() { g(\"test://static-text\") }\n";
    check_source(
        "crates/lb-wire/src/a.rs",
        uri,
        &["crates/lb-wire/src/a.rs:2: `test://` belongs to the fixture server"],
    );
    let in_tests = "//! A module.\n#[cfg(test)]\nmod tests { const A: &str = \"test_a\"; }\n";
    check_source("crates/lb-wire/src/a.rs", in_tests, &[]);
}

#[test]
fn a_module_without_header_is_found() {
    let file = "crates/lb-wire/src/a.rs";
    check_source(file, "use std::fs;\n", &["crates/lb-wire/src/a.rs: does not open with `//!`"]);
    check_source(file, "", &["crates/lb-wire/src/a.rs: does not open with `//!`"]);
    check_source(file, "#![expect(dead_code)]\n\n//! A module.\n", &[]);
    check_source("bench/echo/src/main.rs", "use std::fs;\n", &[]);
}

#[test]
fn folders_of_this_machine_are_found_in_any_file() {
    let found = ["README.md:2: names a folder of this machine"];
    check_source("README.md", "fine\nrun /srv/build/landbridge\n", &found);
    check_source("README.md", "see docs/srv/build/x and ~/srv/build/x and /srv/builder/x\n", &[]);
}

#[test]
fn only_long_modules_are_pointed_out() {
    let long = "//! x\n".repeat(601);
    assert!(sources::too_long(Path::new("crates/lb-wire/src/a.rs"), &long).is_some());
    assert!(sources::too_long(Path::new("crates/lb-wire/src/a.rs"), "//! x\n").is_none());
    assert!(sources::too_long(Path::new("crates/lb-wire/src/a/tests.rs"), &long).is_none());
}
