//! What one owner does, step by step. Schedules are drawn by the model (`waybill_testkit::streams_model`).
