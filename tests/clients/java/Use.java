import com.fasterxml.jackson.databind.ObjectMapper;
import java.time.OffsetDateTime;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.function.Predicate;
import waybill.ApiClient;
import waybill.ApiException;
import waybill.api.DeadLettersApi;
import waybill.api.InboxApi;
import waybill.api.MessagesApi;
import waybill.api.OutboxApi;
import waybill.api.SagasApi;
import waybill.api.StreamsApi;
import waybill.api.SystemApi;
import waybill.model.*;

/**
 * Uses the client that openapi-generator makes of Waybill's OpenAPI document: the operations of messages, dead letters, sagas, the inbox and streams.
 * Its first argument is the host's address, the second a topic that is refused. The host has a route {@code bus:work.**} to {@code external}, and a
 * key for approvals.
 */
public final class Use {
  private final ApiClient client = new ApiClient();
  private final String topic;

  private Use(String url, String topic) {
    client.updateBaseUri(url);
    this.topic = topic;
  }

  private static void same(Object found, Object wanted) {
    if (!Objects.equals(found, wanted)) {
      throw new AssertionError(found + " instead of " + wanted);
    }
  }

  private interface Asked<T> {
    T ask() throws ApiException;
  }

  private static void refused(String code, Asked<?> asked) throws Exception {
    try {
      asked.ask();
    } catch (ApiException error) {
      Problem problem = new ObjectMapper().readValue(error.getResponseBody(), Problem.class);
      same(problem.getCode(), code);
      same(problem.getStatus(), error.getCode());
      return;
    }
    throw new AssertionError("it isn't refused with " + code);
  }

  private static <T> T until(Predicate<T> holds, Asked<T> asked) throws Exception {
    for (int round = 0; round < 600; round++) {
      T found = asked.ask();
      if (holds.test(found)) {
        return found;
      }
      Thread.sleep(50);
    }
    throw new AssertionError("not within 30 s: " + asked.ask());
  }

  private void messages() throws Exception {
    MessagesApi messages = new MessagesApi(client);
    NewMessage order = new NewMessage().topic(topic).id("by-java").payload(Map.of("order", 1));
    same(messages.enqueueWithHttpInfo(new PostMessages(order), null).getStatusCode(), 201);
    // It is shown with the scheme that leads it.
    same(messages.showMessage("by-java", null).getTopic(), "http:" + topic);
    NewMessage later = new NewMessage().topic(topic).id("later").payload(1).notBefore(new Instant(OffsetDateTime.parse("2100-01-01T00:00:00Z")));
    Transaction transaction = new Transaction().addStatementsItem(new Statement().query("CREATE order:1")).addMessagesItem(later);
    same(messages.transact(transaction, null).getIds(), List.of("later"));
    Instant moved = new Instant(OffsetDateTime.parse("2101-01-01T00:00:00Z"));
    same(messages.rescheduleMessage("later", new Reschedule().notBefore(moved), null).getId(), "later");
    // What waits for its time is listed first.
    same(messages.listMessages(null, null, null, 1, true).getItems().get(0).getId(), "later");
    same(messages.cancelMessage("later", null, new ActReason()).getState(), MessageState.CANCELLED);
    refused("OUTBOX.NOT_FOUND", () -> messages.showMessage("nobody", null));
  }

  private void workers() throws Exception {
    OutboxApi outbox = new OutboxApi(client);
    new MessagesApi(client).enqueue(new PostMessages(new NewMessage().topic("bus:work.a").id("w-0").payload(1)), null);
    Claim claim = new Claim().workerId("java").waitMs(5000L).limit(1);
    ClaimedMessage first = outbox.claimMessages(claim).getItems().get(0);
    SettleItem item = new SettleItem().id(first.getId()).token(first.getToken()).result(SettleResult.ACK);
    same(outbox.settleMessages(new Settle().addItemsItem(item)).getItems().get(0).getApplied(), true);
    same(outbox.outboxStats(null).getItems().isEmpty(), false);
    outbox.outboxBlocked(null);
  }

  private void deadLetters() throws Exception {
    DeadLettersApi letters = new DeadLettersApi(client);
    ListDeadLetter found = until(list -> !list.getItems().isEmpty(), () -> letters.listDeadLetters(null, null, null, null, null));
    // The tag tells which it is, and with it what it has.
    same(found.getItems().get(0).getDeadLetterMessage().getTopic(), "http:" + topic);
    same(letters.showDeadLetter("by-java", null, null).getDeadLetterMessage().getId(), "by-java");
    same(letters.groupDeadLetters(null, null).getItems().get(0).getCount(), 1L);
    DeadLetter fenced = letters.quarantineDeadLetter("by-java", new Quarantine().note("looked at"), null, null);
    same(fenced.getDeadLetterMessage().getNote(), "looked at");
    EditMessage edit = new EditMessage().payload(Map.of("order", 2));
    same(letters.editDeadLetter("by-java", edit, null, null, "corrected").getIds().size(), 1);
    // The generator's code writes a body that is left out as null, which isn't taken.
    same(letters.replayDeadLetter("by-java", null, null, new Replay()).getReplayedDeadLetterMessage().getId(), "by-java");
    refused("DEAD.NOT_FOUND", () -> letters.showDeadLetter("nobody", null, null));
  }

  private void sagas() throws Exception {
    SagasApi sagas = new SagasApi(client);
    List<Map<String, String>> steps =
        List.of(
            Map.of("name", "book", "action", "bus:work.book"),
            Map.of("name", "paid", "action", "wait:paid"),
            Map.of("name", "release", "action", "wait:approval"));
    same(sagas.defineSaga(Map.of("name", "parcel", "version", 1, "steps", steps), null, null).getName(), "parcel");
    same(sagas.listSagaDefinitions(null, null, null).getItems().size(), 1);
    same(sagas.showSagaDefinition("parcel", null).getVersion(), 1);
    for (String id : List.of("s-1", "s-2", "s-3")) {
      StartSaga start = new StartSaga().id(id).definition("parcel").input(Map.of("order", 17));
      same(sagas.startSaga(start, null, null).getId(), id);
    }
    waits(sagas, "reply");
    StepReply reply = new StepReply().step("book").output(Map.of("parcel", 1));
    sagas.replyToSaga("s-1", reply, null);
    waits(sagas, "signal:paid");
    sagas.signalSaga("s-1", "paid", null, null, Map.of("payment", "p-1"));
    waits(sagas, "approval");
    String link = sagas.makeApprovalLinks("s-1", new MakeApprovalLinks().by("ann"), null).getApprove();
    String token = link.substring(link.lastIndexOf('/') + 1);
    same(sagas.showApproval(token).getSaga(), "s-1");
    sagas.decideApproval(token, new SagaActJson());
    refused("SAGA.NOT_WAITING", () -> sagas.approveSagaStep("s-1", null, new SagaStepActJson()));
    refused("SAGA.NOT_WAITING", () -> sagas.rejectSagaStep("s-1", null, new SagaStepActJson()));
    Saga ended = sagas.showSaga("s-1", null, 5000L);
    same(ended.getState(), SagaState.COMPLETED);
    same(ended.getSaga().getSteps().size(), 3);
    same(sagas.pauseSaga("s-2", null, new SagaActJson()).getId(), "s-2");
    sagas.resumeSaga("s-2", null, new SagaActJson());
    refused("SAGA.STATE", () -> sagas.retrySaga("s-2", null, new SagaRetryJson()));
    sagas.skipSagaStep("s-2", new SagaSkipJson().step("paid"), null);
    sagas.cancelSaga("s-2", null, new SagaActJson());
    sagas.killSaga("s-3", null, new SagaActJson());
    refused("SAGA.ENDED", () -> sagas.acceptSaga("s-3", new SagaAcceptJson().reason("by hand"), null));
    same(sagas.listSagas(null, null, null, null).getItems().size(), 3);
  }

  private static void waits(SagasApi sagas, String what) throws Exception {
    until(found -> what.equals(found.getWaitingFor()), () -> sagas.showSaga("s-1", null, null));
  }

  private void inbox() throws Exception {
    InboxApi inbox = new InboxApi(client);
    same(inbox.listInbox(null, null, null, null, null).getItems(), List.of());
    same(inbox.inboxStats(null).getConsumers(), List.of());
    refused("INBOX.NOT_FOUND", () -> inbox.showInbox("nobody", "17", null));
  }

  private void streams() throws Exception {
    StreamsApi streams = new StreamsApi(client);
    NewEvent event = new NewEvent().resourceType("TASK").resourceId("t").op(new EventOp("CREATE")).schemaVersion(1);
    // Numbers are texts, so that they are exact.
    same(streams.appendEvents("task.a", new Append().addEventsItem(event).addEventsItem(event)).getSeqs(), List.of("1", "2"));
    StreamEvents read = streams.readStream("task.a", null, null, null);
    same(read.getItems().size(), 2);
    same(read.getItems().get(1).getSeq(), "2");
    same(streams.readEvents(null, "task.", null, null, null, null).getItems().isEmpty(), false);
    same(streams.listStreams(null, null, null, null).getItems().size(), 1);
    same(streams.showStream("task.a", null).getName(), "task.a");
    streams.streamStats(null);
    same(streams.ticket(new TicketRequest().selector("stream:task.a")).getTicket().isEmpty(), false);
    streams.purgeStream("task.a", null, new PurgeStream().dryRun(true));
    streams.deleteStream("task.a", null, true, null);
    refused("STREAM.NOT_FOUND", () -> streams.showStream("nobody", null));
  }

  public static void main(String[] arguments) throws Exception {
    Use use = new Use(arguments[0], arguments[1]);
    same(new SystemApi(use.client).whoAmI().getAuth(), "none");
    use.messages();
    use.workers();
    use.deadLetters();
    use.sagas();
    use.inbox();
    use.streams();
    System.out.println("used");
  }
}
