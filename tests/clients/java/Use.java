import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.Map;
import java.util.Objects;
import waybill.ApiClient;
import waybill.ApiException;
import waybill.api.DeadLettersApi;
import waybill.api.MessagesApi;
import waybill.api.SystemApi;
import waybill.model.NewMessage;
import waybill.model.PostMessages;
import waybill.model.Problem;
import waybill.model.Replay;

/**
 * Uses the client that openapi-generator makes of Waybill's OpenAPI document: sends, reads, lists what died, puts it back. Its first argument is the
 * host's address, the second a topic that is refused.
 */
public final class Use {
  private static void same(Object found, Object wanted) {
    if (!Objects.equals(found, wanted)) {
      throw new AssertionError(found + " instead of " + wanted);
    }
  }

  public static void main(String[] arguments) throws Exception {
    String topic = arguments[1];
    ApiClient client = new ApiClient();
    client.updateBaseUri(arguments[0]);
    same(new SystemApi(client).whoAmI().getAuth(), "none");

    MessagesApi messages = new MessagesApi(client);
    NewMessage order = new NewMessage().topic(topic).id("by-java").payload(Map.of("order", 1));
    same(messages.enqueueWithHttpInfo(new PostMessages(order), null).getStatusCode(), 201);
    // It is shown with the scheme that leads it.
    same(messages.showMessage("by-java", null).getTopic(), "http:" + topic);

    DeadLettersApi deadLetters = new DeadLettersApi(client);
    while (deadLetters.listDeadLetters(null, null, null, null, null).getItems().isEmpty()) {
      Thread.sleep(50);
    }
    // The tag tells which it is, and with it what it has.
    same(deadLetters.showDeadLetter("by-java", null, null).getDeadLetterMessage().getId(), "by-java");
    // The generator's code writes a body that is left out as null, which isn't taken.
    same(deadLetters.replayDeadLetter("by-java", null, null, new Replay()).getReplayedDeadLetterMessage().getId(), "by-java");

    try {
      messages.showMessage("nobody", null);
      throw new AssertionError("there is no such message");
    } catch (ApiException error) {
      same(error.getCode(), 404);
      Problem problem = new ObjectMapper().readValue(error.getResponseBody(), Problem.class);
      same(problem.getCode(), "OUTBOX.NOT_FOUND");
    }
    System.out.println("used");
  }
}
