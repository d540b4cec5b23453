//! A plugin's configuration against the schema in its manifest.

use serde_json::Value;

use crate::error::SandboxError;
use crate::manifest::Manifest;
use crate::schema;
use crate::text::cut_owned;

/// Longest explanation taken over from the schema's validator, in bytes: it quotes the schema.
const CAUSE_BYTES_MAX: usize = 512;

/// Checks the configuration of `endpoint` and answers it as the text the guest gets. The first error is named with its
/// place. Blocks for a few seconds at most: a schema that takes longer to evaluate is refused as one that isn't taken.
pub fn check_config(manifest: &Manifest, endpoint: &str, config: &Value) -> Result<String, SandboxError> {
    let wrong = |path: &str, cause: String| SandboxError::Config {
        endpoint: endpoint.to_owned(),
        path: if path.is_empty() { "/".to_owned() } else { path.to_owned() },
        cause: cut_owned(cause, CAUSE_BYTES_MAX),
    };
    match &manifest.config_schema {
        None => match config {
            Value::Null => {}
            Value::Object(fields) if fields.is_empty() => {}
            _ => return Err(wrong("", format!("plugin {} takes no configuration: remove it", manifest.name))),
        },
        Some(schema) => {
            let empty = Value::Object(serde_json::Map::new());
            let found = schema::first_error(schema, if config.is_null() { &empty } else { config });
            let found =
                found.map_err(|cause| SandboxError::BadManifest { cause: format!("config_schema: {cause}") })?;
            if let Some((path, cause)) = found {
                return Err(wrong(&path, cause));
            }
        }
    }
    let text = if config.is_null() { "{}".to_owned() } else { config.to_string() };
    Ok(text)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::json;

    fn manifest(schema: &str) -> Manifest {
        let schema = if schema.is_empty() { String::new() } else { format!("config_schema = '''{schema}'''") };
        let text = format!("name='x'\nversion='1.0.0'\nworld='transport'\ncontract='0.1.0'\ndescription='x'\n{schema}");
        Manifest::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn the_error_names_the_place() {
        let manifest = manifest(
            r#"{"type":"object","properties":{"a":{"type":"object","properties":{"b":{"type":"integer"}}}},"additionalProperties":false}"#,
        );
        assert_eq!(check_config(&manifest, "t", &json!({"a":{"b":1}})).unwrap(), r#"{"a":{"b":1}}"#);
        let error = check_config(&manifest, "t", &json!({"a":{"b":"x"}})).unwrap_err();
        assert_eq!(error.code().as_str(), "PLUGIN.CONFIG");
        assert!(error.to_string().contains("/a/b"), "{error}");
        assert!(check_config(&manifest, "t", &json!({"c":1})).unwrap_err().to_string().contains("at /"));
        assert_eq!(check_config(&manifest, "t", &Value::Null).unwrap(), "{}");
    }

    #[test]
    fn without_a_schema_nothing_is_taken() {
        let manifest = manifest("");
        assert_eq!(check_config(&manifest, "t", &json!({})).unwrap(), "{}");
        assert!(check_config(&manifest, "t", &json!({"a":1})).is_err());
    }
}
