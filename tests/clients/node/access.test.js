// `larder serve --tls --access`: the AWS SDK with signatures through TLS, and each way to be refused,
// with AWS's codes and DynamoDB's status for all of them: 400.

import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { connect as connectHttp2 } from "node:http2";
import { Agent, request as requestHttps } from "node:https";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { text } from "node:stream/consumers";
import { after, before, describe, test } from "node:test";
import { promisify } from "node:util";
import {
  CreateTableCommand,
  DeleteItemCommand,
  DeleteTableCommand,
  DynamoDBClient,
  GetItemCommand,
  ListTablesCommand,
  PutItemCommand,
} from "@aws-sdk/client-dynamodb";
import { BatchWriteCommand, DynamoDBDocumentClient, paginateScan } from "@aws-sdk/lib-dynamodb";
import { SKIP } from "./systems.js";

const TableName = "orders";
const Key = { id: { S: "o-1" } };
const TABLE = {
  BillingMode: "PAY_PER_REQUEST",
  AttributeDefinitions: [{ AttributeName: "id", AttributeType: "S" }],
  KeySchema: [{ AttributeName: "id", KeyType: "HASH" }],
};
const MINUTE = 60_000;

describe("with signatures through TLS", { skip: SKIP }, () => {
  let directory;
  let server;
  let endpoint;
  let ca;
  let administrator;
  const opened = [];

  before(async () => {
    directory = mkdtempSync(join(tmpdir(), "larder-access-"));
    const file = join(directory, "access.json");
    const binary = process.env.LARDER_BIN;
    const add = ["access", "add", "administrator", "--policy", "all", "--access", file];
    const { stdout } = await promisify(execFile)(binary, add, { timeout: 30_000 });
    administrator = {
      accessKeyId: stdout.match(/^aws_access_key_id = (\S+)$/m)[1],
      secretAccessKey: stdout.match(/^aws_secret_access_key = (\S+)$/m)[1],
    };
    const listen = ["--memory", "--dynamodb", "127.0.0.1:0", "--no-console"];
    server = spawn(binary, ["serve", ...listen, "--tls", "self-signed", "--access", file], {
      env: { ...process.env, XDG_DATA_HOME: directory },
      stdio: ["ignore", "pipe", "ignore"],
    });
    const late = setTimeout(() => server.kill("SIGKILL"), 30_000);
    for await (const line of createInterface({ input: server.stdout })) {
      endpoint = line.replace("listening on ", "");
      break;
    }
    clearTimeout(late);
    assert.match(endpoint ?? "it ended", /^https:/);
    ca = readFileSync(join(directory, "larder/tls/certificate.pem"));
    const client = connect();
    await client.send(new CreateTableCommand({ ...TABLE, TableName }));
    await client.send(new PutItemCommand({ TableName, Item: { ...Key, note: { S: "hush" } } }));
  });

  after(() => {
    for (const client of opened) client.destroy();
    server?.kill();
    if (directory) rmSync(directory, { recursive: true });
  });

  function connect({ credentials = {}, trusted = ca, clock = 0 } = {}) {
    const client = new DynamoDBClient({
      endpoint,
      region: "us-east-1",
      credentials: { ...administrator, ...credentials },
      maxAttempts: 1,
      systemClockOffset: clock,
      requestHandler: {
        connectionTimeout: 5_000,
        requestTimeout: 30_000,
        httpsAgent: new Agent({ ca: trusted ?? undefined, keepAlive: true }),
      },
    });
    opened.push(client);
    return client;
  }

  // Changes requests after they were signed.
  function changing(change) {
    const client = connect();
    const middleware = (next) => (args) => {
      change(args.request);
      return next(args);
    };
    client.middlewareStack.add(middleware, { step: "deserialize", priority: "low" });
    return client;
  }

  async function refused(client, code, message, command = new ListTablesCommand({})) {
    await assert.rejects(client.send(command), (error) => {
      assert.equal(error.name, code);
      assert.match(error.message, message);
      assert.equal(error.$metadata.httpStatusCode, 400);
      return true;
    });
  }

  const unknown = /^The security token included in the request is invalid\.$/;
  const mismatch = /^The request signature we calculated does not match the signature you provided\./;

  test("a round of work", async () => {
    const client = connect();
    const documents = DynamoDBDocumentClient.from(client);
    const items = Array.from({ length: 25 }, (_, n) => ({ id: `å/${n} +`, n }));
    const puts = items.map((Item) => ({ PutRequest: { Item } }));
    await documents.send(new BatchWriteCommand({ RequestItems: { [TableName]: puts } }));
    let found = 0;
    for await (const page of paginateScan({ client: documents, pageSize: 10 }, { TableName })) {
      found += page.Items.filter((item) => item.id.startsWith("å/")).length;
    }
    assert.equal(found, 25);
    await client.send(new CreateTableCommand({ ...TABLE, TableName: "round" }));
    await client.send(new DeleteTableCommand({ TableName: "round" }));
    assert.deepEqual((await client.send(new ListTablesCommand({}))).TableNames, [TableName]);
  });

  test("a wrong key, a wrong secret, a token of somebody else", async () => {
    const key = connect({ credentials: { accessKeyId: "LKIA0000000000000000" } });
    await refused(key, "UnrecognizedClientException", unknown);
    const secret = connect({ credentials: { secretAccessKey: "wrong" } });
    await refused(secret, "InvalidSignatureException", mismatch);
    const token = connect({ credentials: { sessionToken: "of-somebody-else" } });
    await refused(token, "UnrecognizedClientException", unknown);
  });

  test("a body that was changed after it was signed", async () => {
    const client = changing((request) => {
      request.body = Buffer.from(request.body).toString().replace("o-1", "o-2");
    });
    const command = new DeleteItemCommand({ TableName, Key });
    await refused(client, "InvalidSignatureException", mismatch, command);
  });

  test("a header that was signed and is not there, and no date", async () => {
    const without = (name) =>
      changing((request) => {
        const sent = Object.keys(request.headers).find((header) => header.toLowerCase() === name);
        assert.ok(sent, `${name} is sent`);
        delete request.headers[sent];
      });
    await refused(without("x-amz-target"), "InvalidSignatureException", /'x-amz-target'/);
    await refused(without("x-amz-date"), "IncompleteSignatureException", /'X-Amz-Date'/);
  });

  test("a date that is not now", async () => {
    const old = connect({ clock: -16 * MINUTE });
    await refused(old, "InvalidSignatureException", /^Signature expired: /);
    const future = connect({ clock: 16 * MINUTE });
    await refused(future, "InvalidSignatureException", /^Signature not yet current: /);
    for (const clock of [-14 * MINUTE, 14 * MINUTE]) {
      await connect({ clock }).send(new ListTablesCommand({}));
    }
  });

  test("the SDK mends its clock by the answer", async () => {
    const client = connect({ clock: -16 * MINUTE });
    await refused(client, "InvalidSignatureException", /^Signature expired: /);
    await client.send(new ListTablesCommand({}));
  });

  test("no signature, and half of one", async () => {
    const none = changing(({ headers }) => delete headers.authorization);
    const missing = /^Request is missing Authentication Token$/;
    await refused(none, "MissingAuthenticationTokenException", missing);
    const half = changing(({ headers }) => {
      headers.authorization = headers.authorization.replace(/, Signature=.*/, "");
    });
    await refused(half, "IncompleteSignatureException", /'Signature'/);
  });

  // A request as the SDK's own signer takes it.
  function getItem() {
    const { hostname, port, host, protocol } = new URL(endpoint);
    return {
      method: "POST",
      protocol,
      hostname,
      port: Number(port),
      path: "/",
      query: {},
      headers: {
        host,
        "content-type": "application/x-amz-json-1.0",
        "x-amz-target": "DynamoDB_20120810.GetItem",
      },
      body: JSON.stringify({ TableName, Key }),
    };
  }

  test("a presigned address is good for its lifetime, more than once", async () => {
    const signer = await connect().config.signer();
    const unhoistableHeaders = new Set(["x-amz-target"]);
    const presigned = (signingDate) =>
      signer.presign(getItem(), {
        expiresIn: 60,
        signingDate,
        signingService: "dynamodb",
        unhoistableHeaders,
      });
    const use = async ({ query, headers }, body = getItem().body) => {
      const options = { method: "POST", headers, ca, timeout: 30_000 };
      const request = requestHttps(`${endpoint}/?${new URLSearchParams(query)}`, options);
      const answered = new Promise((resolve, reject) => {
        request.on("response", resolve).on("error", reject);
      });
      request.end(body);
      const response = await answered;
      return { status: response.statusCode, ...JSON.parse(await text(response)) };
    };
    const address = await presigned(new Date());
    for (let time = 0; time < 2; time += 1) {
      const { status, Item } = await use(address);
      assert.equal(status, 200);
      assert.deepEqual(Item.note, { S: "hush" });
    }
    const type = "com.amazon.coral.service#InvalidSignatureException";
    const other = await use(address, getItem().body.replace("o-1", "o-2"));
    assert.deepEqual([other.status, other.__type], [400, type]);
    const late = await use(await presigned(new Date(Date.now() - 2 * MINUTE)));
    assert.deepEqual([late.status, late.__type], [400, type]);
    assert.match(late.message, /^Signature expired: /);
  });

  test("HTTP/2 is agreed on, and its requests are signed alike", async () => {
    const signer = await connect().config.signer();
    const signed = await signer.sign(getItem(), { signingService: "dynamodb" });
    const session = connectHttp2(endpoint, { ca });
    try {
      const { host, ...headers } = signed.headers;
      const ask = async (body) => {
        const stream = session.request({ ":method": "POST", ":path": "/", ":authority": host, ...headers });
        stream.setTimeout(30_000, () => stream.close());
        const answered = new Promise((resolve, reject) => {
          stream.on("response", resolve).on("error", reject);
        });
        stream.end(body);
        return { status: (await answered)[":status"], ...JSON.parse(await text(stream)) };
      };
      const { status, Item } = await ask(signed.body);
      assert.equal(session.alpnProtocol, "h2");
      assert.deepEqual([status, Item.note], [200, { S: "hush" }]);
      const changed = await ask(signed.body.replace("o-1", "o-2"));
      assert.equal(changed.status, 400);
      assert.equal(changed.__type, "com.amazon.coral.service#InvalidSignatureException");
    } finally {
      session.destroy();
    }
  });

  test("a client that does not trust the certificate ends there", async () => {
    const client = connect({ trusted: null });
    const command = new GetItemCommand({ TableName, Key });
    await assert.rejects(client.send(command), { code: /SELF_SIGNED|UNABLE_TO_VERIFY/ });
  });
});
