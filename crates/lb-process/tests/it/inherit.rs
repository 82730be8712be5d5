//! What a program gets from us, and what not.

use std::os::fd::AsRawFd;

use lb_process::{Inherit, environment};

use crate::kit::{PROBE, marker, output, probe};

#[tokio::test]
async fn a_program_has_three_pipes_and_nothing_else() {
    // One descriptor that is not closed on exec, as socket activation leaves them.
    let leaky = std::fs::File::open("/dev/null").expect("file");
    rustix::io::fcntl_setfd(&leaky, rustix::io::FdFlags::empty()).expect("flag");
    assert!(2 < leaky.as_raw_fd());
    // And others being started at the same time.
    let command = probe(&["fds"]);
    let all = tokio::join!(output(&command), output(&command), output(&command), output(&command));
    for open in [all.0, all.1, all.2, all.3] {
        assert_eq!(open, "0 pipe\n1 pipe\n2 pipe\n");
    }
}

#[tokio::test]
async fn a_program_sees_exactly_the_chosen_environment() {
    let ours = [
        ("PATH", "/bin"),
        ("LANDBRIDGE_KEY", "secret"),
        ("MCP_CONFIG_X", "secret"),
        ("AWS_SECRET", "secret"),
        ("LC_ALL", "C"),
    ];
    let ours = ours.map(|(name, value)| (name.into(), value.into()));
    let added = [("TOKEN".to_string(), "é=x\ny".to_string())];
    let listed = environment(&added, Inherit::Listed, ours.clone().into_iter());
    assert_eq!(output(&probe(&["env"]).env(listed)).await, "LC_ALL=C\nPATH=/bin\nTOKEN=é=x\ny\n");
    let all = environment(&[], Inherit::All, ours.into_iter());
    assert_eq!(output(&probe(&["env"]).env(all)).await, "AWS_SECRET=secret\nLC_ALL=C\nPATH=/bin\n");
    assert_eq!(output(&probe(&["env"])).await, "\n", "nothing of ours by default");
}

#[tokio::test]
async fn variables_work_on_the_program_and_not_on_its_supervisor() {
    // Both would fail to start or complain if the loader of either read this.
    let command = probe(&["env"]).env(vec![("LD_PRELOAD".into(), "/no/such/library.so".into())]);
    let child = crate::kit::spawn(&command).await;
    assert!(child.wait().await.success());
    let complaints = child.stderr().tail(4096);
    assert_eq!(complaints.matches("/no/such/library.so").count(), 1, "{complaints}");
}

#[tokio::test]
async fn arguments_arrive_byte_for_byte() {
    let odd = ["", " ", "$(touch x)", "; rm", "--", "*", "\"'\\", "-é", "__supervise"];
    let command = lb_process::Command::new(PROBE, PROBE).args(["args"]).args(odd);
    assert_eq!(output(&command).await, odd.join("\n") + "\n");
}

#[tokio::test]
async fn a_program_starts_with_default_signals_and_no_terminal() {
    let status = output(&probe(&["signals"])).await;
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("field");
        u64::from_str_radix(line.trim(), 16).expect("mask")
    };
    assert_eq!(field("SigBlk:"), 0);
    // Its language's runtime ignores SIGPIPE (13), and the C library keeps 32 and 33 to itself; nothing else may be.
    assert_eq!(field("SigIgn:") & !(1 << 12 | 1 << 31 | 1 << 32), 0);
    let tty = crate::kit::shell("exec 2>/dev/null; (: </dev/tty) || echo none");
    assert_eq!(output(&tty).await, "none\n");
}

#[test]
fn a_command_is_printed_without_what_may_be_secret() {
    let secret = marker();
    let command = probe(&[&secret]).env(vec![("TOKEN".into(), secret.clone().into())]);
    let printed = format!("{command:?}");
    assert!(printed.contains("TOKEN") && !printed.contains(&secret), "{printed}");
}
