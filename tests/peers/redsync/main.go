// A client of redsync that does what ../redlock/client.js says.
//
// usage: redsync FILE KEY TTL_MS TRIES SOCKET...
package main

import (
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/go-redsync/redsync/v4"
	lock "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/redigo"
	"github.com/gomodule/redigo/redis"
)

func pools(sockets []string) []lock.Pool {
	var result []lock.Pool
	for _, socket := range sockets {
		path := socket
		result = append(result, redigo.NewPool(&redis.Pool{
			Dial: func() (redis.Conn, error) { return redis.Dial("unix", path) },
		}))
	}
	return result
}

func number(text string) int {
	value, err := strconv.Atoi(text)
	if err != nil {
		panic(err)
	}
	return value
}

func main() {
	file, key, ttl, tries := os.Args[1], os.Args[2], number(os.Args[3]), number(os.Args[4])
	mutex := redsync.New(pools(os.Args[5:])...).NewMutex(key,
		redsync.WithExpiry(time.Duration(ttl)*time.Millisecond), redsync.WithTries(tries))
	if err := mutex.Lock(); err != nil {
		fmt.Println("refused")
		return
	}
	fmt.Println("held")
	for {
		if _, err := os.Stat(file); err != nil {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if ok, err := mutex.Unlock(); !ok || err != nil {
		fmt.Println("not ours")
		return
	}
	fmt.Println("released")
}
