// A client for `exos bench sockets`, whose jobs are in jobs.toml: asks for a page on ten kept connections, and says `rate N`.
const http = require("http"), [url, seconds] = process.argv.slice(2);
const agent = new http.Agent({ keepAlive: true, maxSockets: 10 });
const get = () => new Promise((done, fail) => http.get(url, { agent }, (answer) => {
    let length = 0;
    answer.on("data", (piece) => length += piece.length);
    answer.on("end", () => length == 1000 ? done() : fail(new Error(`${length} bytes`)));
}).on("error", fail));

const begin = performance.now(), end = begin + 1000 * seconds;
let count = 0;
const client = async () => { for (; performance.now() < end; count++) await get(); };
Promise.all([...Array(10)].map(client)).then(() => {
    console.log("rate", 1000 * count / (performance.now() - begin));
    process.exit(0);
});
