//! The Secret Service: secrets in collections, each found by what is said of it.
//!
//! Secrets go over the socket as they are: it leads to a program of the same user on the same machine, who could read
//! our memory as well.

use super::Unusable;
use super::bus::Bus;
use super::wire::{Method, Reader, Writer};

const NAME: &str = "org.freedesktop.secrets";
const SERVICE: &str = "org.freedesktop.Secret.Service";
const COLLECTION: &str = "org.freedesktop.Secret.Collection";
const ITEM: &str = "org.freedesktop.Secret.Item";
const ROOT: &str = "/org/freedesktop/secrets";
/// What stands for no object.
const NOTHING: &str = "/";

/// A keyring that answers and is open.
#[derive(Debug)]
pub struct Keyring {
    bus: Bus,
    session: String,
    collection: String,
}

impl Keyring {
    /// Opens the one of whoever is logged in; `bus` is where programs of that login speak to each other. Cancel safe: yes.
    pub async fn open(bus: Option<&str>) -> Result<Self, Unusable> {
        let mut bus = Bus::connect(bus.ok_or(Unusable::Absent)?).await?;
        let mut way = Writer::default();
        way.text("plain").signature("s").text("");
        let way = way.finish();
        let opened = bus.call(method(ROOT, SERVICE, "OpenSession", "sv"), &way, |values| {
            (values.signature()? == "s").then_some(())?;
            values.text()?;
            values.text().map(str::to_owned)
        });
        // Nobody has that name, and nobody could be started for it.
        let session = opened.await.map_err(|why| match why {
            Unusable::Failed(why) if why.ends_with("ServiceUnknown") => Unusable::Absent,
            why => why,
        })?;
        let mut alias = Writer::default();
        alias.text("default");
        let collection = bus.call(method(ROOT, SERVICE, "ReadAlias", "s"), &alias.finish(), path).await?;
        if collection == NOTHING {
            return Err(Unusable::Failed("it has no default collection".to_owned()));
        }
        if is_locked(&mut bus, &collection).await? {
            return Err(Unusable::Locked);
        }
        Ok(Self { bus, session, collection })
    }

    /// The secret of this name.
    pub async fn find(&mut self, name: &str) -> Result<Option<String>, Unusable> {
        let Some(item) = self.item(name).await? else { return Ok(None) };
        let mut session = Writer::default();
        session.text(&self.session);
        let session = session.finish();
        let found = self.bus.call(method(&item, ITEM, "GetSecret", "o"), &session, |values| {
            values.align(8)?;
            let (_session, _parameters, secret) = (values.text()?, values.bytes()?, values.bytes()?);
            std::str::from_utf8(secret).ok().map(str::to_owned)
        });
        found.await.map(Some)
    }

    /// Keeps a secret under this name, in the place of one that it has.
    pub async fn put(&mut self, name: &str, secret: &str) -> Result<(), Unusable> {
        let mut item = Writer::default();
        item.array(|properties| {
            properties.text("org.freedesktop.Secret.Item.Label").signature("s").text("landbridge: key of logins");
            properties.align(8);
            properties.text("org.freedesktop.Secret.Item.Attributes").signature("a{ss}").attributes(&about(name));
        });
        item.align(8);
        item.text(&self.session).bytes(&[]).bytes(secret.as_bytes()).text("text/plain").number(1);
        let place = self.collection.clone();
        let create = method(&place, COLLECTION, "CreateItem", "a{sv}(oayays)b");
        let made = self.bus.call(create, &item.finish(), |values| Some((path(values)?, path(values)?))).await?;
        done(&made.1)
    }

    /// Forgets the secret of this name.
    pub async fn remove(&mut self, name: &str) -> Result<(), Unusable> {
        let Some(item) = self.item(name).await? else { return Ok(()) };
        let prompt = self.bus.call(method(&item, ITEM, "Delete", ""), &[], path).await?;
        done(&prompt)
    }

    async fn item(&mut self, name: &str) -> Result<Option<String>, Unusable> {
        let mut wanted = Writer::default();
        wanted.attributes(&about(name));
        let search = method(ROOT, SERVICE, "SearchItems", "a{ss}");
        let (open, locked) = self
            .bus
            .call(search, &wanted.finish(), |values| {
                let first = |all: Vec<&str>| all.first().map(|item| (*item).to_owned());
                Some((first(values.texts()?), first(values.texts()?)))
            })
            .await?;
        match (open, locked) {
            (Some(item), _) => Ok(Some(item)),
            (None, Some(_)) => Err(Unusable::Locked),
            (None, None) => Ok(None),
        }
    }
}

/// What is said of a secret of ours.
fn about(name: &str) -> [(&'static str, &str); 2] {
    [("application", "landbridge"), ("name", name)]
}

fn method<'a>(path: &'a str, interface: &'static str, name: &'a str, signature: &'a str) -> Method<'a> {
    Method { service: NAME, path, interface, name, signature }
}

async fn is_locked(bus: &mut Bus, collection: &str) -> Result<bool, Unusable> {
    let mut wanted = Writer::default();
    wanted.text(COLLECTION).text("Locked");
    bus.call(method(collection, "org.freedesktop.DBus.Properties", "Get", "ss"), &wanted.finish(), |values| {
        (values.signature()? == "b").then_some(())?;
        values.number().map(|value| value != 0)
    })
    .await
}

fn path(values: &mut Reader<'_>) -> Option<String> {
    values.text().map(str::to_owned)
}

/// It was done, unless somebody must be asked first, whom nobody asks.
fn done(prompt: &str) -> Result<(), Unusable> {
    if prompt == NOTHING { Ok(()) } else { Err(Unusable::Locked) }
}
