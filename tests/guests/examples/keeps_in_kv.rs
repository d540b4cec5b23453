//! Well-behaved user of `kv`: counts its batches under `batches`, writes only over what it read, and reports the count. With `amount` it
//! writes a value of that many bytes instead and reports what came of it.
use waybill_plugin::host::kv;

fn count() -> Result<u64, kv::KvError> {
    loop {
        let entry = kv::get("batches")?;
        let (before, expect) = match entry {
            Some(entry) => {
                let text = String::from_utf8_lossy(&entry.value).into_owned();
                (text.parse().unwrap_or(0), kv::Expectation::Revision(entry.revision))
            }
            None => (0_u64, kv::Expectation::Absent),
        };
        match kv::put("batches", (before + 1).to_string().as_bytes(), &expect) {
            Ok(_) => return Ok(before + 1),
            Err(kv::KvError::Conflict) => continue,
            Err(error) => return Err(error),
        }
    }
}

guests::on_send!(config, _call, batch => {
    let seen = if config.amount == 0 {
        count().map_or_else(|error| format!("{error:?}"), |count| count.to_string())
    } else {
        match kv::put("large", &vec![0; config.amount], &kv::Expectation::Anything) {
            Ok(_) => "written".to_owned(),
            Err(error) => format!("{error:?}"),
        }
    };
    Ok(guests::reports(&batch, &seen))
});
