//! JSON objects edited without touching what is not understood.

use std::fmt;

use serde::de::{Error as _, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

/// An object whose fields keep their order and their exact text, so a field
/// nobody here knows survives an edit byte for byte.
///
/// A repeated key is an error: readers differ on which one counts.
#[derive(Clone, Debug, Default)]
pub(crate) struct JsonObject {
    fields: Vec<(String, Box<RawValue>)>,
}

impl JsonObject {
    /// The text of a field; `None` when absent or `null`.
    pub(crate) fn raw(&self, key: &str) -> Option<&RawValue> {
        let (_, value) = self.fields.iter().find(|(name, _)| name == key)?;
        (value.get() != "null").then_some(value)
    }

    /// Whether there is such a field, `null` or not.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.fields.iter().any(|(name, _)| name == key)
    }

    /// Parses a field; absent and `null` are the same.
    pub(crate) fn field<'a, T: Deserialize<'a>>(
        &'a self,
        key: &str,
    ) -> serde_json::Result<Option<T>> {
        self.raw(key).map(|raw| serde_json::from_str(raw.get())).transpose()
    }

    /// Sets a field in place, or appends it.
    pub(crate) fn set<T: Serialize + ?Sized>(
        &mut self,
        key: &str,
        value: &T,
    ) -> serde_json::Result<()> {
        let value = serde_json::value::to_raw_value(value)?;
        match self.fields.iter_mut().find(|(name, _)| name == key) {
            Some((_, slot)) => *slot = value,
            None => self.fields.push((key.to_owned(), value)),
        }
        Ok(())
    }

    /// Removes a field, if it is there.
    pub(crate) fn remove(&mut self, key: &str) {
        self.fields.retain(|(name, _)| name != key);
    }

    /// Whether there is no field at all.
    pub(crate) fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }
}

impl Serialize for JsonObject {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.fields.len()))?;
        for (key, value) in &self.fields {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for JsonObject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;
        impl<'de> Visitor<'de> for Fields {
            type Value = JsonObject;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<JsonObject, A::Error> {
                let mut seen = std::collections::HashSet::new();
                let mut object = JsonObject::default();
                while let Some((key, value)) = map.next_entry::<String, Box<RawValue>>()? {
                    if !seen.insert(key.clone()) {
                        return Err(A::Error::custom(format_args!("key {key:?} is repeated")));
                    }
                    object.fields.push((key, value));
                }
                Ok(object)
            }
        }
        deserializer.deserialize_map(Fields)
    }
}

/// Reads `null` as the default value, as Go writes its nil slices and maps.
pub(crate) fn null_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}
