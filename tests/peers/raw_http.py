"""Raw HTTP for the site tests: bytes as they are, answers taken apart strictly."""
import socket


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    def __repr__(self):
        return 'Answer(%d, %r)' % (self.status, self.body[:80])


class Connection:
    """One connection; answers are read one after the other."""

    def __init__(self, port, timeout=15):
        self.sock = socket.create_connection(('127.0.0.1', port), timeout)
        self.rest = b''

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.sock.close()

    def send(self, data):
        """What the other side no longer wants is not our failure."""
        try:
            self.sock.sendall(data)
        except OSError:
            pass

    def more(self):
        try:
            data = self.sock.recv(65536)
        except ConnectionError:
            data = b''
        self.rest += data
        return bool(data)

    def line(self):
        while b'\r\n' not in self.rest:
            if not self.more():
                return None
        line, self.rest = self.rest.split(b'\r\n', 1)
        return line

    def exactly(self, size):
        while len(self.rest) < size:
            if not self.more():
                raise EOFError('the answer is cut')
        data, self.rest = self.rest[:size], self.rest[size:]
        return data

    def chunks(self):
        body = b''
        while True:
            size = int(self.line(), 16)
            body += self.exactly(size)
            if size == 0:
                while self.line():
                    pass
                return body
            if self.line() != b'':
                raise ValueError('a chunk has no end')

    def answer(self, is_head=False):
        """The next answer, or None at the end of the connection."""
        line = self.line()
        while line is not None and line.split(b' ')[1:2] == [b'100']:
            while self.line():
                pass
            line = self.line()
        if line is None:
            if self.rest:
                raise ValueError('%r is no answer' % self.rest[:80])
            return None
        version, status = line.split(b' ')[:2]
        if not version.startswith(b'HTTP/1.'):
            raise ValueError('%r is no answer' % line)
        headers = {}
        while True:
            line = self.line()
            if not line:
                break
            name, value = line.split(b':', 1)
            headers[name.lower().decode()] = value.strip().decode()
        return Answer(int(status), headers, self.body(int(status), headers, is_head))

    def body(self, status, headers, is_head):
        if is_head or status in (204, 304):
            return b''
        if headers.get('transfer-encoding') == 'chunked':
            return self.chunks()
        if 'content-length' in headers:
            return self.exactly(int(headers['content-length']))
        while self.more():
            pass
        body, self.rest = self.rest, b''
        return body

    def answers(self):
        """All until the other side closes. What comes behind one that is the last by its own
        word (libmicrohttpd says some refusals twice) counts to that."""
        found = []
        while True:
            answer = self.answer()
            if answer is None:
                return found
            found.append(answer)
            if answer.headers.get('connection', '').lower() == 'close':
                while self.more():
                    pass
                answer.body += self.rest
                return found


def ask(port, data):
    """All answers to these bytes, after which the client says that it is done."""
    with Connection(port) as connection:
        connection.send(data)
        try:
            connection.sock.shutdown(socket.SHUT_WR)
        except OSError:
            pass
        return connection.answers()
