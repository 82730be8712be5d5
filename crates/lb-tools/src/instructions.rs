//! What a model is told before its first call.

/// The orientation that `initialize` and `server/discover` carry.
pub(crate) const TEXT: &str = "landbridge connects you to other MCP servers. Their tools are not in this tool list: \
call list_servers to see the servers, list_tools to see their tools with their schemas, and execute_tool to call one. \
add_server connects another server, by url or by command. list_resources, read_resource, list_prompts and get_prompt \
reach the rest of what servers offer.\n\
\n\
Calls that take long become tasks: execute_tool then returns a taskId; go on with other work and fetch the result with \
get_task_result. When a server needs an answer from the user or from you, the reply says so and names the request: \
answer with respond_to_elicitation or respond_to_sampling. Ask the user before you answer in their name.\n\
\n\
Any reply may end with one more JSON block: requests that wait for you (pending_client), timers that fired, and events \
since your last call, each told once. To wait for the next one, call await_activity instead of polling.";
