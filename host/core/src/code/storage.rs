//! Codes of the store, of transactions and of idempotency keys.

codes! {
    STORAGE_BACKUP_BUSY = "STORAGE.BACKUP_BUSY" => retryable(409, "Another backup is under way",
        "Wait until it is done.");
    STORAGE_BACKUP_ELSEWHERE = "STORAGE.BACKUP_ELSEWHERE" => answered(409, "The data isn't on this host's disk",
        "Back it up where it is: a SurrealDB server with its own export.");
    STORAGE_BACKUP_UNREADABLE = "STORAGE.BACKUP_UNREADABLE";
    STORAGE_CONFLICT = "STORAGE.CONFLICT" => answered(409, "It conflicts with what is stored",
        "Choose another id, or send exactly the same content; a conflicting transaction may be sent again.");
    STORAGE_CORRUPT = "STORAGE.CORRUPT" => answered(500, "A stored record can't be read",
        "Look for the request_id in the host's log; `waybill quarantine list` shows the rows that were set aside.");
    STORAGE_DIRECTORY = "STORAGE.DIRECTORY";
    STORAGE_DISK_FULL = "STORAGE.DISK_FULL" => retryable(507, "The disk is full",
        "Free space in the data directory's file system; the host goes on by itself.");
    STORAGE_LOCKED = "STORAGE.LOCKED";
    STORAGE_NEWER_DATA = "STORAGE.NEWER_DATA" => answered(500, "The data was written by a newer Waybill",
        "Start that version, or restore a backup.");
    STORAGE_SHARED = "STORAGE.SHARED" => answered(403, "Statements aren't run on a shared store",
        "Write your rows to the database yourself, with fn::waybill::enqueue in the same transaction.");
    STORAGE_STATEMENT = "STORAGE.STATEMENT" => answered(400, "A statement of the transaction failed",
        "Correct the SurrealQL; nothing was committed.");
    STORAGE_TABLE = "STORAGE.TABLE";
    STORAGE_TOO_LARGE = "STORAGE.TOO_LARGE" => answered(413, "The transaction writes more than the store takes at once",
        "Split the transaction, or raise store.memtable; nothing was committed.");
    STORAGE_WENT_BACK = "STORAGE.WENT_BACK" => answered(500, "The store lost what it had",
        "Stop the host and put back a whole copy of the data, or start it again to go on from what is there.");
    TX_IDEMPOTENCY_KEY = "TX.IDEMPOTENCY_KEY" => answered(400, "The request needs a usable Idempotency-Key",
        "Send one Idempotency-Key header of up to 255 visible ASCII characters, new for every operation.");
    TX_IDEMPOTENT_BUSY = "TX.IDEMPOTENT_BUSY" => retryable(409, "The idempotency key is in flight",
        "Ask again after `retry_after_ms`.");
    TX_IDEMPOTENT_LAST_FAILED = "TX.IDEMPOTENT_LAST_FAILED" => answered(409,
        "The operation of this idempotency key has failed for good",
        "Take a new key, or have an operator release this one.");
    TX_IDEMPOTENT_MISMATCH = "TX.IDEMPOTENT_MISMATCH" => answered(422,
        "The idempotency key was used for something else",
        "Take a new key for another operation; send exactly the same request to repeat one.");
    TX_IDEMPOTENT_NOT_FOUND = "TX.IDEMPOTENT_NOT_FOUND" => answered(404, "There is no such idempotency key",
        "Check the key and the tenant.");
    TX_LEASE_LOST = "TX.LEASE_LOST" => answered(409, "Somebody else has it",
        "Drop what was done under this token; begin the key again to hear how it stands.");
    TX_OTHER_STATEMENTS = "TX.OTHER_STATEMENTS" => answered(409, "The messages were committed without these statements",
        "Repeat exactly the same transaction, or give its messages new ids.");
    TX_TIMEOUT = "TX.TIMEOUT" => retryable(504, "The outcome isn't known",
        "Send the same messages with the same ids again.");
}
