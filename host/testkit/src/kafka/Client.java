import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.*;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.acl.*;
import org.apache.kafka.common.errors.RebalanceInProgressException;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.quota.*;
import org.apache.kafka.common.resource.*;
import org.apache.kafka.common.serialization.*;

/** What tests do with the Java client. Each run is one command; further properties are NAME=VALUE at its end. */
public class Client {
    public static void main(String[] words) throws Exception {
        Properties settings = new Properties();
        List<String> args = new ArrayList<>();
        for (String word : words) {
            int at = word.indexOf('=');
            if (at > 0) settings.put(word.substring(0, at), word.substring(at + 1)); else args.add(word);
        }
        settings.put("bootstrap.servers", args.get(1));
        switch (args.get(0)) {
            case "create" -> create(settings, args.get(2), Integer.parseInt(args.get(3)), Short.parseShort(args.get(4)));
            case "create-led-by" -> createLedBy(settings, args.get(2), Integer.parseInt(args.get(3)), args.subList(4, args.size()));
            case "delete" -> delete(settings, args.get(2));
            case "trim" -> trim(settings, args.get(2), Long.parseLong(args.get(3)));
            case "ends" -> ends(settings, args.get(2));
            case "offsets" -> offsets(settings, args.get(2));
            case "write" -> write(settings, args.get(2), Integer.parseInt(args.get(3)), Integer.parseInt(args.get(4)));
            case "read" -> read(settings, args.get(2), Integer.parseInt(args.get(3)));
            case "member" -> member(settings, args.get(2), args.get(3), Long.parseLong(args.get(4)));
            case "password" -> password(settings, args.get(2), args.get(3));
            case "allow" -> allow(settings, args.get(2));
            case "quota" -> quota(settings, args.get(2), Double.parseDouble(args.get(3)));
            case "partitions" -> partitions(settings, args.get(2));
            case "everything" -> everything(settings, args.get(2));
            default -> throw new IllegalArgumentException(args.get(0));
        }
    }

    /** What the others do, so that the classes of all of them are known. */
    static void everything(Properties settings, String topic) throws Exception {
        create(more(settings), topic, 4, (short) 1);
        write(more(settings, "transactional.id", topic), topic, 0, 20);
        read(more(settings), topic, 20);
        ends(more(settings), topic);
        partitions(more(settings), topic);
        member(more(settings), topic, topic, 500);
        offsets(more(settings), topic);
        delete(more(settings), topic);
    }

    /** A copy with these properties beside. */
    static Properties more(Properties settings, String... pairs) {
        Properties copy = new Properties();
        copy.putAll(settings);
        for (int at = 0; at < pairs.length; at += 2) copy.put(pairs[at], pairs[at + 1]);
        return copy;
    }

    static void create(Properties settings, String topic, int partitions, short replicas) throws Exception {
        NewTopic wanted = new NewTopic(topic, partitions, replicas);
        Map<String, String> more = new HashMap<>();
        for (String name : settings.stringPropertyNames())
            if (name.startsWith("topic.")) more.put(name.substring(6), settings.getProperty(name));
        try (Admin admin = Admin.create(settings)) { admin.createTopics(List.of(wanted.configs(more))).all().get(); }
    }

    /** Each partition on these servers, the first of which leads. */
    static void createLedBy(Properties settings, String topic, int partitions, List<String> servers) throws Exception {
        List<Integer> replicas = servers.stream().map(Integer::valueOf).toList();
        Map<Integer, List<Integer>> places = new HashMap<>();
        for (int partition = 0; partition < partitions; partition++) places.put(partition, replicas);
        try (Admin admin = Admin.create(settings)) { admin.createTopics(List.of(new NewTopic(topic, places))).all().get(); }
    }

    static void delete(Properties settings, String topic) throws Exception {
        try (Admin admin = Admin.create(settings)) { admin.deleteTopics(List.of(topic)).all().get(); }
    }

    /** Removes what lies before an offset of partition 0. */
    static void trim(Properties settings, String topic, long before) throws Exception {
        try (Admin admin = Admin.create(settings)) {
            admin.deleteRecords(Map.of(new TopicPartition(topic, 0), RecordsToDelete.beforeOffset(before))).all().get();
        }
    }

    /** The next offset of each partition. */
    static void ends(Properties settings, String topic) throws Exception {
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(settings)) {
            consumer.endOffsets(places(consumer, topic)).forEach((place, end) -> System.out.println(place.partition() + "\t" + end));
        }
    }

    /** What a group has committed. */
    static void offsets(Properties settings, String group) throws Exception {
        try (Admin admin = Admin.create(settings)) {
            admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get()
                .forEach((place, at) -> System.out.println(place.topic() + "\t" + place.partition() + "\t" + at.offset()));
        }
    }

    /** Messages with the ids m0, m1, ... and keys order-N, so many milliseconds apart (pace=), each with so many bytes more (bytes=); how many were acknowledged. */
    static void write(Properties settings, String topic, int from, int to) throws Exception {
        settings.put("enable.idempotence", "true");
        String transaction = settings.getProperty("transactional.id");
        boolean aborts = "true".equals(settings.remove("abort"));
        Object pace = settings.remove("pace");
        Object bytes = settings.remove("bytes");
        String more = bytes == null ? "" : ",\"padding\":\"" + "x".repeat(Integer.parseInt((String) bytes)) + "\"";
        AtomicInteger acknowledged = new AtomicInteger();
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer())) {
            if (transaction != null) { producer.initTransactions(); producer.beginTransaction(); }
            for (int number = from; number < to; number++) {
                ProducerRecord<byte[], byte[]> record = new ProducerRecord<>(topic, bytes("order-" + number % 20), bytes("{\"order\":" + number + more + "}"));
                record.headers().add("id", bytes("m" + number)).add("x-tenant", bytes("acme")).add("x-event-type", bytes("order.created")).add("content-type", bytes("application/json"));
                producer.send(record, (at, error) -> { if (error != null) System.err.println(error); else acknowledged.incrementAndGet(); });
                if (pace != null) Thread.sleep(Long.parseLong((String) pace));
            }
            producer.flush();
            if (transaction != null) { if (aborts) producer.abortTransaction(); else producer.commitTransaction(); }
        }
        System.out.println(acknowledged.get());
    }

    /** So many messages from the start, or all that there are when it begins: partition, offset, key, value, headers. */
    static void read(Properties settings, String topic, int count) throws Exception {
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(settings)) {
            List<TopicPartition> places = places(consumer, topic);
            consumer.assign(places);
            consumer.seekToBeginning(places);
            Map<TopicPartition, Long> ends = consumer.endOffsets(places);
            long deadline = System.currentTimeMillis() + 60_000;
            int found = 0;
            StringBuilder out = new StringBuilder();
            while (found < count && ends.entrySet().stream().anyMatch(end -> consumer.position(end.getKey()) < end.getValue())) {
                if (System.currentTimeMillis() > deadline) throw new IllegalStateException("not read to the end within a minute: " + found);
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200))) {
                    found++;
                    out.append(record.partition()).append('\t').append(record.offset()).append('\t').append(text(record.key())).append('\t').append(text(record.value()));
                    for (Header header : record.headers()) out.append('\t').append(header.key()).append('=').append(text(header.value()));
                    out.append('\n');
                }
            }
            System.out.print(out);
        }
    }

    /** Takes part in a group for so many milliseconds: what it handled, committed as it goes. */
    static void member(Properties settings, String topic, String group, long millis) throws Exception {
        settings.put("group.id", group);
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", "false");
        settings.put("partition.assignment.strategy", "org.apache.kafka.clients.consumer.RangeAssignor");
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(settings)) {
            consumer.subscribe(List.of(topic));
            long end = System.currentTimeMillis() + millis;
            while (System.currentTimeMillis() < end) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(100)))
                    System.out.println(text(record.headers().lastHeader("id").value()));
                // The group is shared out anew while it goes on: what isn't committed then comes to another member, too.
                try { consumer.commitSync(); } catch (RebalanceInProgressException | CommitFailedException given) { }
            }
        }
    }

    /** Gives a user a password for SCRAM-SHA-512, and makes him if he isn't there. */
    static void password(Properties settings, String user, String password) throws Exception {
        ScramCredentialInfo how = new ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096);
        try (Admin admin = Admin.create(settings)) {
            admin.alterUserScramCredentials(List.of(new UserScramCredentialUpsertion(user, how, password))).all().get();
        }
    }

    /** Lets one principal (principal=) and nobody else do everything with a topic, where the server asks who one is. */
    static void allow(Properties settings, String topic) throws Exception {
        AccessControlEntry entry = new AccessControlEntry((String) settings.remove("principal"), "*", AclOperation.ALL, AclPermissionType.ALLOW);
        AclBinding binding = new AclBinding(new ResourcePattern(ResourceType.TOPIC, topic, PatternType.LITERAL), entry);
        try (Admin admin = Admin.create(settings)) { admin.createAcls(List.of(binding)).all().get(); }
    }

    /** How many bytes a second a user may write. */
    static void quota(Properties settings, String user, double bytes) throws Exception {
        ClientQuotaEntity whom = new ClientQuotaEntity(Map.of(ClientQuotaEntity.USER, user));
        ClientQuotaAlteration change = new ClientQuotaAlteration(whom, List.of(new ClientQuotaAlteration.Op("producer_byte_rate", bytes)));
        try (Admin admin = Admin.create(settings)) { admin.alterClientQuotas(List.of(change)).all().get(); }
    }

    /** Where its own partitioner puts the keys order-0 to order-99. */
    static void partitions(Properties settings, String topic) throws Exception {
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer())) {
            int count = producer.partitionsFor(topic).size();
            for (int number = 0; number < 100; number++)
                System.out.println("order-" + number + "\t" + org.apache.kafka.clients.producer.internals.BuiltInPartitioner.partitionForKey(bytes("order-" + number), count));
        }
    }

    static KafkaConsumer<byte[], byte[]> consumer(Properties settings) {
        settings.putIfAbsent("isolation.level", "read_committed");
        return new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    /** All partitions of a topic. A busy server may say for a moment that it has none. */
    static List<TopicPartition> places(KafkaConsumer<byte[], byte[]> consumer, String topic) throws Exception {
        long deadline = System.currentTimeMillis() + 60_000;
        List<PartitionInfo> all = consumer.partitionsFor(topic);
        while (all.isEmpty()) {
            if (System.currentTimeMillis() > deadline) throw new IllegalStateException("no partitions of " + topic + " within a minute");
            Thread.sleep(200);
            all = consumer.partitionsFor(topic);
        }
        return all.stream().map(info -> new TopicPartition(topic, info.partition())).toList();
    }

    static byte[] bytes(String text) { return text.getBytes(StandardCharsets.UTF_8); }

    static String text(byte[] bytes) { return bytes == null ? "" : new String(bytes, StandardCharsets.UTF_8); }
}
