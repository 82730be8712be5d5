//! The scoring rule, on results of the shape the suite writes.

use super::*;

fn checks(rows: &[(&str, &str)]) -> String {
    let rows: Vec<_> = rows.iter().map(|(id, status)| serde_json::json!({"id": id, "status": status})).collect();
    serde_json::to_string(&rows).unwrap()
}

#[test]
fn a_scenario_passes_only_on_a_success_that_counts() {
    for (rows, want) in [
        (&[("a", "SUCCESS")][..], Verdict::Passed),
        (&[("a", "SUCCESS"), ("b", "FAILURE")], Verdict::Failed),
        (&[("a", "SUCCESS"), ("b", "WARNING"), ("c", "SKIPPED"), ("d", "INFO")], Verdict::Passed),
        (&[(WELL_FORMED, "SUCCESS")], Verdict::Void),
        (&[(WELL_FORMED, "FAILURE"), ("a", "SUCCESS")], Verdict::Failed),
        (&[("a", "SKIPPED"), ("b", "INFO"), ("c", "WARNING")], Verdict::Void),
        (&[], Verdict::Void),
    ] {
        assert_eq!(judge("any", Some(&checks(rows))).verdict, want, "checks {rows:?}");
    }
    assert_eq!(judge("any", None).verdict, Verdict::Void);
    assert_eq!(judge("any", Some("{")).verdict, Verdict::Failed);
}

#[test]
fn polling_needs_the_resume_and_not_only_the_stream() {
    let without = checks(&[("server-sse-priming", "SUCCESS"), ("server-sse-disconnect-resume", "INFO")]);
    assert_eq!(judge("server-sse-polling", Some(&without)).verdict, Verdict::Void);
    let with = checks(&[("server-sse-disconnect-resume", "SUCCESS")]);
    assert_eq!(judge("server-sse-polling", Some(&with)).verdict, Verdict::Passed);
}

#[test]
fn a_warning_the_direct_run_does_not_have_is_bad() {
    let run = |warnings: &[&str]| {
        let warnings = warnings.iter().map(|id| (*id).to_owned()).collect();
        Scenarios::from([("s".to_owned(), Scenario { verdict: Verdict::Passed, warnings, failures: Vec::new() })])
    };
    assert_eq!(score(&run(&["w"]), Some(&run(&["w"]))).passed, 1);
    assert_eq!(score(&run(&["w"]), Some(&run(&[]))).bad, ["s"]);
    assert_eq!(score(&run(&["w", "w"]), Some(&run(&["w"]))).bad, ["s"]);
    assert_eq!(score(&run(&["w"]), None).passed, 1, "the direct run is its own measure");
}

#[test]
fn result_folders_are_told_from_others() {
    for (folder, want) in [
        ("server-tools-list-2026-11-15T20-51-00-123Z", Some("tools-list")),
        ("server-server-sse-polling-2026-11-15T20-51-00-9Z", Some("server-sse-polling")),
        ("auth-basic-2026-11-15T20-51-00-123Z", Some("auth-basic")),
        ("tools-list", None),
        ("2025", None),
        ("x-2026-11-15T20-51-00-Z", None),
    ] {
        assert_eq!(scenario_name(folder), want, "folder {folder:?}");
    }
}

#[test]
fn a_folder_without_checks_is_void_and_folders_below_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let good = dir.path().join("auth/good-2026-11-15T20-51-00-123Z");
    std::fs::create_dir_all(&good).unwrap();
    std::fs::write(good.join("checks.json"), checks(&[("a", "SUCCESS")])).unwrap();
    std::fs::create_dir_all(dir.path().join("server-crashed-2026-11-15T20-51-00-123Z")).unwrap();
    let run = read(dir.path()).unwrap();
    assert_eq!(run.keys().collect::<Vec<_>>(), ["auth/good", "crashed"]);
    let sum = score(&run, None);
    assert_eq!((sum.passed, sum.failed, sum.void), (1, 0, vec!["crashed".to_owned()]));
}

#[test]
fn two_results_of_one_scenario_are_refused() {
    // Two runs into one folder once made a scenario void that both had passed.
    let dir = tempfile::tempdir().unwrap();
    for stamp in ["684", "620"] {
        std::fs::create_dir_all(dir.path().join(format!("server-twice-2026-11-15T21-42-52-{stamp}Z"))).unwrap();
    }
    assert!(read(dir.path()).unwrap_err().to_string().ends_with("holds two results of twice"));
}
