//! One client and one server, directly and through the gateway.

use serde_json::{Value, json};

use crate::client::{Client, Era};
use crate::compare::{difference, without_era};
use crate::plan;
use crate::server::{Behind, Link, Reach};

/// The client sees through the gateway what it sees without it.
pub async fn check(client: Client, era: Era, behind: Behind, link: Link) {
    let bridged = behind.is_bridged(era);
    let reach = Reach::start(era, behind, link).await;
    let capabilities = |through: bool| match (bridged, through) {
        // Between two eras the gateway declares nothing to the server, whatever the client declares.
        (true, false) => json!({}),
        _ => plan::capabilities(),
    };
    let run = |server: &Value, through: bool| {
        json!({
            "server": server,
            "era": era.name(),
            "capabilities": capabilities(through),
            "answers": plan::answers(),
            "steps": plan::steps(behind, !bridged),
        })
    };
    let runs = json!([run(&reach.direct, false), run(&reach.served, true), run(&reach.piped, true)]);
    let seen = client.run(runs).await;
    let [direct, served, piped] = <[Value; 3]>::try_from(seen).expect("one document per run");

    check_plan("directly", &direct);
    for (way, mut through) in [("through serve", served), ("through stdio", piped)] {
        let said = reach.gateway.said();
        assert_eq!(through["failure"], Value::Null, "{way}; the gateway said: {said}");
        assert_eq!(through["server"]["revision"], era.revision(), "{way}");
        check_plan(way, &through);
        let mut direct = direct.clone();
        if bridged {
            if era == Era::Modern {
                assert_eq!(take_code(&mut through), -32602, "{way}");
                take_code(&mut direct);
            }
            (direct, through) = (without_era(direct), without_era(through));
        } else {
            assert_eq!(direct["server"]["revision"], era.revision(), "directly");
        }
        if let Some(difference) = difference("", &direct, &through) {
            panic!("{way}, and directly against that: {difference}; the gateway said: {said}");
        }
    }
}

/// Every step ended as the plan says.
fn check_plan(way: &str, run: &Value) {
    assert_eq!(run["failure"], Value::Null, "{way}");
    for record in run["steps"].as_array().expect("steps") {
        let step = &record["step"];
        assert_eq!(record.get("error").is_some(), step["fails"] == true, "{way}: {record}");
        if let Some(asks) = step["asks"].as_u64() {
            assert_eq!(record["asks"].as_array().map(Vec::len), usize::try_from(asks).ok(), "{way}: {record}");
        }
        if let Some(times) = step["progressed"].as_u64() {
            let reported = record["progress"].as_array().expect("progress");
            let numbers: Vec<_> = reported.iter().filter_map(|report| report["progress"].as_f64()).collect();
            assert!(numbers.is_sorted(), "{way}: {record}");
            assert_eq!(u64::try_from(numbers.len()).ok(), Some(times), "{way}: {record}");
        }
        match step["do"].as_str() {
            Some("cancel") => assert!(record["result"]["first"]["progress"].is_number(), "{way}: {record}"),
            Some("counters") => {
                assert_eq!(record["result"], json!({ "started": 1, "finished": 0, "cancelled": 1 }), "{way}");
            }
            _ => {}
        }
    }
}

/// Takes out the error code of an unknown resource, which is another one in each era.
fn take_code(run: &mut Value) -> Value {
    let steps = run["steps"].as_array_mut().expect("steps");
    let read = steps.iter_mut().find(|record| record["step"]["do"] == "read" && record["step"]["fails"] == true);
    read.expect("an unknown resource is read")["error"]["code"].take()
}
