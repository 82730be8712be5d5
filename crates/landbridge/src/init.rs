//! `landbridge init`: a new MCP server project in Rust, from a template that is part of this program.

mod files;
mod name;
mod template;
mod vendor;

use std::io::Write as _;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use self::files::Folder;
use self::name::Name;
use crate::run::{Failure, quoted};

/// `landbridge init`
#[derive(Debug, Args)]
pub struct Init {
    /// What to call the project: letters, digits, - and _; capitals become small, other characters become -.
    #[arg(value_name = "NAME", value_parser = Name::parse)]
    pub name: Name,

    /// Where to put its folder; made if it is missing.
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    pub dir: PathBuf,

    /// Write into a folder that holds something already, and replace files of the same names.
    #[arg(long)]
    pub force: bool,

    /// Where the SDK and all that it needs come from: the registry with each first build, or copied into the project
    /// now, so that it builds without a network.
    #[arg(long, value_enum, default_value_t = Sdk::Registry, value_name = "SOURCE")]
    pub sdk: Sdk,
}

/// Where the SDK comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Sdk {
    /// From crates.io, when it is built.
    Registry,
    /// Copied into vendor/ now.
    Vendored,
}

/// Makes the project and says what to do next.
pub async fn init(Init { name, dir, force, sdk }: Init) -> Result<(), Failure> {
    if template::has_dependency(&name) {
        return Err(Failure::usage(format!(
            "{name} is the name of a crate that the project uses: choose another name"
        )));
    }
    let shown = dir.join(name.as_str());
    let parent = Folder::walk(&dir)?;
    let project = parent.project(&name, force)?;
    // For the config that the README shows; what cannot be resolved is shown as it was given.
    let whole = std::path::absolute(&shown).unwrap_or_else(|_| shown.clone());
    for (path, text) in template::files(&name, &whole, sdk) {
        project.write(path, &text, force)?;
    }
    if sdk == Sdk::Vendored {
        vendor::vendor(&shown).await?;
        project.write(".cargo/config.toml", vendor::CONFIG, force)?;
    }
    let text = next_steps(&name, &shown.display().to_string(), &template::program(&whole, &name), sdk);
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).map_err(|error| Failure::runtime(format!("cannot print: {error}")))
}

fn next_steps(name: &Name, shown: &str, program: &serde_json::Value, sdk: Sdk) -> String {
    let (shown, offline) = (quoted(shown), if sdk == Sdk::Vendored { " --offline" } else { "" });
    format!(
        "Made {name} in {shown}\n\nNext\n  cd {shown}\n  cargo test{offline}\n  cargo build --release{offline}\n\n\
         Then put it into a client's config\n  {{ \"mcpServers\": {{ \"{server}\": {{ \"command\": {program} }} }} }}\n\n\
         or try it behind landbridge\n  landbridge serve --config mcp.json\n",
        server = name.server(),
    )
}
