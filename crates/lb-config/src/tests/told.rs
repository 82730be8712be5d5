//! What the writer of a file is told about it, word for word.

use insta::assert_snapshot;

use super::{read, shown};
use crate::problems_json;

/// The problems of a file that cannot be used.
fn refused(text: &str) -> String {
    shown(&read(text).expect_err(text))
}

/// The warnings of a file that can be used, then what it leaves out, then the names that are served.
fn remarks(text: &str) -> String {
    let loaded = read(text).unwrap_or_else(|problems| panic!("input {text}\n{}", shown(&problems)));
    let names: Vec<&str> = loaded.servers.iter().map(|spec| spec.name.as_str()).collect();
    format!("{}\n--\n{}\n--\n{}", shown(&loaded.warnings), shown(&loaded.left_out), names.join(" "))
}

#[test]
fn all_problems_come_at_once_and_in_file_order() {
    assert_snapshot!(refused(r#"{
  "mcpServers": {
    "git": {
      "comand": "git-mcp",
      "args": ["-p", 8080, "${NONE}"],
      "timeout_ms": "5s"
    },
    "hub": {
      "command": "x",
      "url": "localhost:8080",
      "isolation": "sesion",
      "disabled": "no"
    },
    "git": {"url": "http://a", "type": "stdio"},
    "nothing": null
  }
}"#), @r#"
error: conf/mcp.json:3:12: mcpServers.git: neither "command" nor "url" is given
  hint: "command" names a program to start, "url" an http server
warning: conf/mcp.json:4:7: mcpServers.git.comand: unknown key
  hint: did you mean "command"?
error: conf/mcp.json:5:22: mcpServers.git.args[1]: must be a string, not a number
  hint: put it in double quotes
error: conf/mcp.json:5:28: mcpServers.git.args[2]: the variable NONE is not set
  hint: set it, or write ${NONE:-default}
error: conf/mcp.json:6:21: mcpServers.git.timeout_ms: must be a number, not a string
  hint: leave out the quotes
error: conf/mcp.json:10:7: mcpServers.hub.url: an entry has either "command" or "url", not both
error: conf/mcp.json:10:14: mcpServers.hub.url: a server url starts with http:// or https://
error: conf/mcp.json:11:20: mcpServers.hub.isolation: unknown value "sesion"
  hint: did you mean "session"?
error: conf/mcp.json:12:19: mcpServers.hub.disabled: must be a boolean, not a string
  hint: leave out the quotes
error: conf/mcp.json:14:5: mcpServers.git: the same key is given twice
error: conf/mcp.json:14:40: mcpServers.git.type: "stdio" needs "command"
  hint: leave out "type", it follows from the rest
error: conf/mcp.json:15:16: mcpServers.nothing: must be an object, not null
"#);
}

/// A word that would do something else than it says must not pass.
#[test]
fn isolation_has_two_words() {
    assert_snapshot!(refused(r#"{"mcpServers": {
  "a": {"command": "a", "isolation": "call"},
  "b": {"command": "b", "isolation": "Shared"}
}}"#), @r#"
error: conf/mcp.json:2:38: mcpServers.a.isolation: unknown value "call"
  hint: one of session, shared
error: conf/mcp.json:3:38: mcpServers.b.isolation: unknown value "Shared"
  hint: did you mean "shared"?
"#);
}

#[test]
fn what_is_kept_has_bounds_and_a_pool_is_shared() {
    assert_snapshot!(refused(r#"{"mcpServers": {
  "a": {"command": "a", "pool": 2},
  "b": {"command": "b", "pool": 0, "isolation": "shared", "max_age": 0, "cached": "yes"},
  "c": {"command": "c", "idle_timeout": -1, "pool": 17, "isolation": "shared"}
}}"#), @r#"
error: conf/mcp.json:2:25: mcpServers.a.pool: is for sessions that share processes
  hint: add "isolation": "shared", or leave it out: every session has a process of its own
error: conf/mcp.json:3:33: mcpServers.b.pool: must be between 1 and 16
error: conf/mcp.json:3:70: mcpServers.b.max_age: must be between 1 and 31536000
error: conf/mcp.json:3:83: mcpServers.b.cached: must be a boolean, not a string
  hint: leave out the quotes
error: conf/mcp.json:4:41: mcpServers.c.idle_timeout: must be between 0 and 604800
error: conf/mcp.json:4:53: mcpServers.c.pool: must be between 1 and 16
"#);
    assert_snapshot!(remarks(r#"{"mcpServers": {
  "a": {"url": "http://a", "idle_timeout": 5, "max_age": 5}
}}"#), @r#"
warning: conf/mcp.json:2:28: mcpServers.a.idle_timeout: has no effect on a server with a url: it has no process to end
warning: conf/mcp.json:2:47: mcpServers.a.max_age: has no effect without "cached": true
--

--
a
"#);
}

#[test]
fn types_that_do_not_fit() {
    assert_snapshot!(refused(r#"{"servers": [
  {"name": "a", "type": "sse", "command": "a"},
  {"name": "b", "type": "http", "command": "b"},
  {"name": "c", "type": "streamable_http", "url": "http://c"},
  {"name": "d", "type": "grpc", "url": "http://c"},
  {"name": "e", "type": "http"},
  {"command": "f", "comand": "f"},
  {"name": 7, "command": ["g", "h"]}
]}"#), @r#"
error: conf/mcp.json:2:25: servers[0].type: "sse" needs "url"
  hint: leave out "type", it follows from the rest
error: conf/mcp.json:3:25: servers[1].type: "http" needs "url"
  hint: leave out "type", it follows from the rest
error: conf/mcp.json:4:25: servers[2].type: unknown value "streamable_http"
  hint: did you mean "streamable-http"?
error: conf/mcp.json:5:25: servers[3].type: unknown value "grpc"
  hint: one of stdio, http, streamable-http, sse
error: conf/mcp.json:6:3: servers[4]: neither "command" nor "url" is given
  hint: "command" names a program to start, "url" an http server
error: conf/mcp.json:7:3: servers[5]: "name" is missing
error: conf/mcp.json:7:20: servers[5].comand: unknown key
  hint: did you mean "command"?
error: conf/mcp.json:8:12: servers[6].name: must be a string, not a number
  hint: put it in double quotes
error: conf/mcp.json:8:26: servers[6].command: must be a string, not an array
  hint: "command" is the program, "args" takes the rest
"#);
}

#[test]
fn values_that_no_child_or_header_can_have() {
    assert_snapshot!(refused(r#"{"mcpServers": {
  "a": {"command": "", "cwd": "~/x", "env": {"A=B": "1", "": "2", "PORT": 3, "N": "${NUL}", "I": "${input:key}"}},
  "b": {"url": "http://user:pw@b", "headers": {"X Y": "1", "X": "${BREAK}", "Z": "ä", "Q": "1", "q": "2"}},
  "c": {"command": "c", "env": ["A=B"], "args": "-v", "cwd": "${workspaceFolder}"}
}}"#), @r#"
error: conf/mcp.json:2:20: mcpServers.a.command: must not be empty
error: conf/mcp.json:2:31: mcpServers.a.cwd: "~" is not expanded
  hint: write ${HOME}
error: conf/mcp.json:2:46: mcpServers.a.env["A=B"]: is no name of a variable
error: conf/mcp.json:2:58: mcpServers.a.env[""]: is no name of a variable
error: conf/mcp.json:2:75: mcpServers.a.env.PORT: must be a string, not a number
  hint: put it in double quotes
error: conf/mcp.json:2:83: mcpServers.a.env.N: holds a NUL character
error: conf/mcp.json:2:98: mcpServers.a.env.I: "input:key" is no variable name
  hint: editors ask for inputs; write ${NAME} and set it
error: conf/mcp.json:3:16: mcpServers.b.url: the url holds a user name; credentials belong into headers
error: conf/mcp.json:3:48: mcpServers.b.headers["X Y"]: is no name of a header
error: conf/mcp.json:3:65: mcpServers.b.headers.X: holds a control character, which a header cannot
error: conf/mcp.json:3:82: mcpServers.b.headers.Z: holds a character outside ASCII, which a header cannot
error: conf/mcp.json:3:97: mcpServers.b.headers.q: the header "q" is given twice
error: conf/mcp.json:4:32: mcpServers.c.env: must be an object, not an array
error: conf/mcp.json:4:49: mcpServers.c.args: must be an array, not a string
error: conf/mcp.json:4:62: mcpServers.c.cwd: the variable workspaceFolder is not set
  hint: editors set this one; write the folder out
"#);
}

#[test]
fn restart_settings_are_strict_and_their_unknown_keys_are_those_of_the_server() {
    assert_snapshot!(refused(r#"{"mcpServers": {
  "a": {"command": "a", "restartConfig": {"maxRetries": 1, "max_attempts": 2, "enabled": 1, "maxAttempts": 1.5}},
  "b": {"command": "b", "restartConfig": {"baseDelayMs": 20, "maxDelayMs": 10}},
  "c": {"command": "c", "restartConfig": {"baseDelayMs": -1, "backoffMultiplier": 0.5}},
  "d": {"command": "d", "restartConfig": true}
}, "servers": [
  {"name": "e", "command": "e", "restartConfig": {"maxRetries": 1}}
]}"#), @r#"
warning: conf/mcp.json:2:43: mcpServers.a.restartConfig.maxRetries: unknown key
warning: conf/mcp.json:2:60: mcpServers.a.restartConfig.max_attempts: unknown key
  hint: did you mean "maxAttempts"?
error: conf/mcp.json:2:90: mcpServers.a.restartConfig.enabled: must be a boolean, not a number
error: conf/mcp.json:2:108: mcpServers.a.restartConfig.maxAttempts: must be a whole number
error: conf/mcp.json:3:76: mcpServers.b.restartConfig.maxDelayMs: must not be less than baseDelayMs
error: conf/mcp.json:4:58: mcpServers.c.restartConfig.baseDelayMs: must be between 0 and 3600000
error: conf/mcp.json:4:83: mcpServers.c.restartConfig.backoffMultiplier: must be between 1 and 100
error: conf/mcp.json:5:42: mcpServers.d.restartConfig: must be an object, not a boolean
error: conf/mcp.json:7:51: servers[0].restartConfig.maxRetries: unknown key
"#);
}

#[test]
fn foreign_keys_are_warned_about() {
    assert_snapshot!(remarks(r#"{
  "inputs": [],
  "mcp_servers": {},
  "theme": "dark",
  "mcpServers": {
    "a": {"command": "npx -y a", "autoApprove": [], "timeout": 30, "inheritEnv": true, "name": "A", "tools": ["*"]},
    "b": {"url": "http://b", "env": {}, "args": [], "restartConfig": {}, "headers": {"Content-Type": "x"}},
    "c": {"command": "c", "headers": {}, "enabled": false, "restartConfig": {"maxAttempt": 1}},
    "d": {"command": "d", "disabled": true, "env": {"K": "${NONE}"}}
  }
}"#), @r#"
warning: conf/mcp.json:2:3: inputs: has no effect here
  hint: write ${NAME} and set the variable
warning: conf/mcp.json:3:3: mcp_servers: unknown key
  hint: did you mean "mcpServers"?
warning: conf/mcp.json:4:3: theme: unknown key
warning: conf/mcp.json:6:22: mcpServers.a.command: is taken as one program name, spaces included
  hint: put the arguments into "args"
warning: conf/mcp.json:6:34: mcpServers.a.autoApprove: unknown key
warning: conf/mcp.json:6:53: mcpServers.a.timeout: unknown key
  hint: did you mean "timeout_ms"?
warning: conf/mcp.json:6:68: mcpServers.a.inheritEnv: unknown key
  hint: did you mean "inherit_env"?
warning: conf/mcp.json:6:88: mcpServers.a.name: unknown key
warning: conf/mcp.json:6:101: mcpServers.a.tools: has no effect here
warning: conf/mcp.json:7:30: mcpServers.b.env: has no effect beside "url"
warning: conf/mcp.json:7:41: mcpServers.b.args: has no effect beside "url"
warning: conf/mcp.json:7:53: mcpServers.b.restartConfig: has no effect beside "url"
warning: conf/mcp.json:7:86: mcpServers.b.headers.Content-Type: is set by landbridge itself, this one is left out
warning: conf/mcp.json:8:27: mcpServers.c.headers: has no effect beside "command"
warning: conf/mcp.json:8:42: mcpServers.c.enabled: read as the opposite of "disabled"
  hint: write "disabled": true or leave it out
warning: conf/mcp.json:8:78: mcpServers.c.restartConfig.maxAttempt: unknown key
  hint: did you mean "maxAttempts"?
warning: conf/mcp.json:9:58: mcpServers.d.env.K: the variable NONE is not set, so this disabled server is not listed
  hint: set it, or write ${NONE:-default}
--

--
a b c
"#);
}

#[test]
fn names_that_cannot_be_had_are_left_out() {
    assert_snapshot!(remarks(r#"{"mcpServers": {
  "git": {"command": "a"},
  "GIT": {"command": "b"},
  "my.server": {"command": "c"},
  "my server": {"command": "d"},
  "a__b": {"command": "e"},
  "": {"command": "f"},
  "日本": {"command": "g"},
  "Landbridge": {"command": "h"},
  "a-name-that-goes-on-for-far-too-long": {"command": "i"},
  "last": {"command": "j"}
}}"#), @r#"
warning: conf/mcp.json:4:3: mcpServers["my.server"]: "my.server" is served as "my-server"
  hint: a name has only A-Z a-z 0-9 _ -
--
error: conf/mcp.json:3:3: mcpServers.GIT: left out: its name "GIT" is taken by mcpServers.git
  hint: rename it: upper and lower case are the same here
error: conf/mcp.json:5:3: mcpServers["my server"]: left out: its name "my-server" is taken by mcpServers["my.server"]
  hint: rename it: upper and lower case are the same here
error: conf/mcp.json:6:3: mcpServers.a__b: left out: a server name has no "__", which separates server and tool
  hint: rename it: 1 to 32 of A-Z a-z 0-9 _ -
error: conf/mcp.json:7:3: mcpServers[""]: left out: a server name has 1 to 32 characters, this one has 0
  hint: rename it: 1 to 32 of A-Z a-z 0-9 _ -
error: conf/mcp.json:8:3: mcpServers["日本"]: left out: no letter or digit is left of this server name
  hint: rename it: 1 to 32 of A-Z a-z 0-9 _ -
error: conf/mcp.json:9:3: mcpServers.Landbridge: left out: "landbridge" is the gateway's own name
  hint: rename it: 1 to 32 of A-Z a-z 0-9 _ -
error: conf/mcp.json:10:3: mcpServers.a-name-that-goes-on-for-far-too-long: left out: a server name has 1 to 32 characters, this one has 36
  hint: rename it: 1 to 32 of A-Z a-z 0-9 _ -
--
git my-server last
"#);
}

#[test]
fn files_without_servers() {
    let told = ["[]", "{}", r#"{"git": {"command": "x"}}"#, r#"{"mcpServers": [{"name": "a"}]}"#, "7"].map(refused);
    assert_snapshot!(told.join("\n--\n"), @r#"
    error: conf/mcp.json:1:1: must be an object, not an array
    --
    error: conf/mcp.json:1:1: no "mcpServers" or "servers" is given
    --
    error: conf/mcp.json:1:1: no "mcpServers" or "servers" is given
      hint: put the entries into {"mcpServers": {…}}
    warning: conf/mcp.json:1:2: git: unknown key
    --
    error: conf/mcp.json:1:16: mcpServers: must be an object, not an array
    --
    error: conf/mcp.json:1:1: must be an object, not a number
    "#);
}

#[test]
fn syntax_errors_have_a_place_and_often_a_hint() {
    let told = [
        "",
        "{\n  \"mcpServers\": {\n    \"a\": {\"command\": \"x\"}\n    \"b\": {}\n  }\n}",
        "{'mcpServers': {}}",
        "{mcpServers: {}}",
        "{\"ä\": 1,, }",
        "{\"servers\": {\"a\": {\"command\": \"C:\\Users\\x\"}}}",
        "{\"servers\": {} /* }",
        "{\"servers\": {",
    ]
    .map(refused);
    assert_snapshot!(told.join("\n--\n"), @r#"
    error: conf/mcp.json:1:1: the text ends too early, a value is missing
    --
    error: conf/mcp.json:4:5: expected "," or "}", found '"'
      hint: is a comma missing before this?
    --
    error: conf/mcp.json:1:2: expected a key in double quotes, found '\''
      hint: strings and keys take double quotes
    --
    error: conf/mcp.json:1:2: expected a key in double quotes, found 'm'
      hint: keys take double quotes
    --
    error: conf/mcp.json:1:9: expected a key in double quotes, found ','
    --
    error: conf/mcp.json:1:34: an unknown escape inside a string
      hint: write a backslash as \\
    --
    error: conf/mcp.json:1:16: a comment is not closed
    --
    error: conf/mcp.json:1:14: the text ends too early, a key in double quotes is missing
    "#);
}

#[test]
fn problems_are_told_to_programs_too() {
    let problems = read("{\n\"servers\": {\"a\\u001b\": {\"comand\": \"x\"}}}").unwrap_err();
    assert_snapshot!(problems_json(&problems), @r#"
    [{"file":"conf/mcp.json","line":2,"key":"servers[\"a\\u{1b}\"]","message":"\"a\\u{1b}\" is served as \"a-\"","hint":"a name has only A-Z a-z 0-9 _ -"},{"file":"conf/mcp.json","line":2,"key":"servers[\"a\\u{1b}\"]","message":"neither \"command\" nor \"url\" is given","hint":"\"command\" names a program to start, \"url\" an http server"},{"file":"conf/mcp.json","line":2,"key":"servers[\"a\\u{1b}\"].comand","message":"unknown key","hint":"did you mean \"command\"?"}]
    "#);
    let whole = crate::load(std::path::Path::new("/")).unwrap_err();
    assert_snapshot!(problems_json(&whole), @r#"
    [{"file":"/","line":null,"key":"","message":"is a folder, not a file","hint":null}]
    "#);
}
