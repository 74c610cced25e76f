"""A network that stalls, is slow, or is cut: a proxy from one Unix socket to another."""
import asyncio
import threading

CHUNK = 65536


class Proxy:
    """Runs in a thread of its own. `target` is where connections go; `delay_s` is added to each chunk, in both directions."""

    def __init__(self, path, target):
        self.target = str(target)
        self.delay_s, self.is_cut = 0, False
        self.flows = asyncio.Event()  # cleared: nothing passes
        self.writers = set()
        self.loop = asyncio.new_event_loop()
        self.listens = threading.Event()
        threading.Thread(target=self.loop.run_until_complete, args=(self.serve(str(path)),), daemon=True).start()
        self.listens.wait()

    async def serve(self, path):
        self.flows.set()
        server = await asyncio.start_unix_server(self.on_client, path)
        self.listens.set()
        await server.serve_forever()

    async def on_client(self, reader, writer):
        ends = [writer]
        try:
            if self.is_cut:
                return
            far_reader, far_writer = await asyncio.open_unix_connection(self.target)
            ends.append(far_writer)
            self.writers.update(ends)
            await asyncio.gather(self.pass_on(reader, far_writer), self.pass_on(far_reader, writer))
        except OSError:
            pass  # whoever is gone takes the other one along
        finally:
            self.writers.difference_update(ends)
            for end in ends:
                end.close()

    async def pass_on(self, reader, writer):
        while data := await reader.read(CHUNK):
            await self.flows.wait()
            if self.delay_s:
                await asyncio.sleep(self.delay_s)
            writer.write(data)
            await writer.drain()
        writer.close()

    def call(self, what):
        done = threading.Event()
        self.loop.call_soon_threadsafe(lambda: (what(), done.set()))
        done.wait()

    def cut(self):
        """Ends all connections, and each new one at once."""
        def work():
            self.is_cut = True
            for writer in self.writers:
                writer.transport.abort()
        self.call(work)

    def stall(self):
        self.call(self.flows.clear)

    def slow(self, delay_s):
        self.delay_s = delay_s

    def heal(self):
        self.is_cut, self.delay_s = False, 0
        self.call(self.flows.set)
