//! `read_resource`: the contents of one resource.

use lb_exchange::ServerName;
use lb_gateway::Kind as Row;
use lb_wire::compose::{Object, array};
use lb_wire::{Kind, Raw, splice as wire};

use crate::args::Checked;
use crate::catalog::{Hints, Run, Tool};
use crate::diagrams;
use crate::failure::{self, Failure};
use crate::plain::{self, Plain};
use crate::reply::Reply;
use crate::request::Request;
use crate::splice;

pub(crate) static TOOL: Tool = Tool {
    name: "read_resource",
    title: "Read a resource",
    description: "Read a resource of a server by URI; returns {contents: [{uri, mimeType, text}]}. Binary data is \
                  left out ({blobBytes, blobOmitted}) unless include_blob is true, which returns images and audio \
                  as content blocks. Server 'landbridge' has landbridge://diagrams.",
    operation: "read resource",
    input: r#"{
        "server": { "type": "string", "description": "Server name" },
        "uri": { "type": "string", "description": "URI of the resource" },
        "include_blob": { "type": "boolean", "default": false, "description": "Also return binary contents" }
    }"#,
    required: &["server", "uri"],
    output: None,
    hints: Hints::ReadsServers,
    run: Run::Waits(|request| Box::pin(async move { run(request).await.into() })),
};

async fn run(request: Request) -> Checked<Reply> {
    let (server, uri) = (request.args.text("server")?, request.args.text("uri")?);
    let blobs = request.args.flag("include_blob", false)?;
    if server == ServerName::RESERVED {
        let missing = || Failure::new(failure::EXECUTION_FAILED, format!("landbridge has no resource '{uri}'"));
        return Ok(Reply::object(diagrams::read(&uri).ok_or_else(missing)?));
    }
    let backend = request.backend_of(&server, "resources/read", None)?;
    let params = Object::new().text("uri", &uri).finish();
    let kind = Some((Row::BackendResource, &*uri));
    let result = plain::ask(&request, &backend, Plain { method: "resources/read", params, kind }).await?;
    Ok(reply(&result, blobs))
}

fn reply(result: &Raw, blobs: bool) -> Reply {
    let contents = result.member("contents").map(|array| splice::elements(&array)).unwrap_or_default();
    let mut blocks = Vec::new();
    let mut rows = Vec::new();
    for content in &contents {
        let media = if blobs { media_block(content) } else { None };
        // What is a block of its own is not repeated as text.
        rows.push(if blobs && media.is_none() { content.clone() } else { without_blob(content) });
        blocks.extend(media);
    }
    let shown = wire::replace(result, "contents", &array(rows.iter()));
    blocks.insert(0, splice::text_block(shown.as_str()));
    Reply::blocks(blocks, Some(shown).filter(|raw| raw.kind() == Kind::Object))
}

/// An image or a sound as a block that a model can take in.
fn media_block(content: &Raw) -> Option<Raw> {
    let (mime, blob) = (content.member("mimeType")?, content.member("blob")?);
    let text = mime.to_text()?;
    let kind = text.split('/').next().filter(|kind| matches!(*kind, "image" | "audio"))?;
    Some(Object::new().text("type", kind).raw("data", &blob).raw("mimeType", &mime).finish())
}

/// The content with the size of its data in place of the data.
fn without_blob(content: &Raw) -> Raw {
    let Some(blob) = content.member("blob") else { return content.clone() };
    let bytes = decoded_len(&blob.to_text().unwrap_or_default());
    let note = [("blobBytes", Raw::value(&bytes)), ("blobOmitted", Raw::from_static("true"))];
    wire::with(&wire::without(content, &["blob"]), &note)
}

/// How many bytes a base64 text stands for.
fn decoded_len(base64: &str) -> usize {
    base64.trim_end_matches('=').len() * 3 / 4
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn binary_contents_become_sizes_or_blocks_and_the_rest_stays() {
        let png = r#"{"uri":"a:1","mimeType":"image/png","blob":"AAECAw==","_meta":{"x":1.50}}"#;
        let zip = r#"{"uri":"a:2","mimeType":"application/zip","blob":"AAEC"}"#;
        let text = r#"{"uri":"a:3","text":"t\u0041"}"#;
        let raw = Raw::from_static;
        assert_eq!(
            without_blob(&raw(png)).as_str(),
            r#"{"blobBytes":4,"blobOmitted":true,"uri":"a:1","mimeType":"image/png","_meta":{"x":1.50}}"#
        );
        assert_eq!(without_blob(&raw(text)).as_str(), text);
        let block = media_block(&raw(png)).unwrap();
        assert_eq!(block.as_str(), r#"{"type":"image","data":"AAECAw==","mimeType":"image/png"}"#);
        assert!(media_block(&raw(zip)).is_none());
        assert!(media_block(&raw(text)).is_none());
        for (text, bytes) in [("", 0), ("AA==", 1), ("AAE=", 2), ("AAEC", 3)] {
            assert_eq!(decoded_len(text), bytes, "{text}");
        }
    }
}
